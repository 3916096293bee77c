# ./dev kill: kills the decode worker of long streams, each at a random token, and compares them byte for byte
#
# usage: ./dev kill [--times T] [--tokens N] [--at-a-time S] [--seed S]        (default: 50 streams of 2,000 tokens, 2 at a time)
#
# kill -9 of the decode worker that `Started` names, as soon as token k has arrived; k is random for each stream, streams
# are greedy and sampled in turn. Prints a line for each stream and a summary. Exit code 0: all were byte-equal to an
# undisturbed run, with at least one re-plan each.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
need_programs kvrelay_kill kvrelay-router kvrelay-prefill kvrelay-decode
export KVRELAY_BINARY_DIR=$BUILD
exec "$BIN/kvrelay_kill" "$@"
