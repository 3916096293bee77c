# ./dev bits: proves equal bits over the large covering set
#
# usage: ./dev bits
#
# Runs the full model over a set of execution, chunk size, threads, batch, kernel set and cache type in which every
# three values meet at least once, and tiny models over these and every type of weights; compares logits byte by byte.
# Takes hours; ./dev test runs a smaller set.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
[[ $# == 0 ]] || die "bits takes no arguments"
need_programs kvrelay_bits
exec "$BIN/kvrelay_bits"
