# ./dev soak: many finished and cancelled requests; memory and KV blocks of every process must stay flat
#
# usage: ./dev soak [--finished N] [--cancelled N] [--streams S]        (default: 10,000 and 10,000, 8 at a time)
#
# Starts one prefill worker, one decode worker and one router, and runs short requests in ten phases. After each, when the
# service is idle, prints referenced blocks and resident memory of each process, without the KV pool, which becomes
# resident as its blocks are first used. Exit code 0: all requests ended as they should, no block was ever left, and no
# process grew by more than 16 MiB after the second phase.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
need_programs kvrelay_soak kvrelay-router kvrelay-prefill kvrelay-decode
export KVRELAY_BINARY_DIR=$BUILD
exec "$BIN/kvrelay_soak" "$@"
