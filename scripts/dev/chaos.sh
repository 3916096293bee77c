# ./dev chaos: kills and suspends processes under streams and compares every stream with an undisturbed run
#
# usage: ./dev chaos [--minutes M] [--streams N] [--seed S]
#
# Two prefill workers, three decode workers and two routers; at any time one of each role may be struck (kill -9, then a
# restart at the same address; SIGSTOP for up to 8 s). Clients resume at the other router. Prints streams that were wrong
# or lost, what the service did about the faults, and the longest token gap by kind of fault. Exit code 0: none was.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
need_programs kvrelay_chaos kvrelay-router kvrelay-prefill kvrelay-decode
export KVRELAY_BINARY_DIR=$BUILD
exec "$BIN/kvrelay_chaos" "$@"
