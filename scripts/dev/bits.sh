# ./dev bits: proves equal bits over the large covering set
#
# usage: ./dev bits
#
# Compares logits byte by byte over sets of execution, chunk size, threads, batch, kernel set and cache type: every three
# values meet on the first two layers of the model, scalar kernels included; every two meet on the whole model, and on
# tiny models of every type of weights. Takes most of an hour; ./dev test runs a smaller set.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
[[ $# == 0 ]] || die "bits takes no arguments"
need_programs kvrelay_bits
exec "$BIN/kvrelay_bits"
