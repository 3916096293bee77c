# ./dev chaos: strikes processes and links under streams and compares every stream with an undisturbed run
#
# usage: ./dev chaos [--minutes M] [--streams N] [--seed S]        (default: 10 minutes, 32 streams)
#
# Two prefill workers, three decode workers and two routers, with a TCP proxy on every link from a router to a worker and
# from prefill to decode. At any time one process or link of each role may be struck: kill -9 and a restart at the same
# address, SIGSTOP for up to 8 s, SIGTERM (drain) and a restart, a link that is cut, slow or half-open. Clients are those
# of `kvrelay`: they resume at the other router. Requests are greedy and sampled, short and long, with stop strings,
# log-probabilities and min_tokens. Prints streams that were wrong or lost, what the service did about the faults, the
# longest token gap while faults of each kind lasted, and what was left at the end. Exit code 0: every stream was right and
# nothing was left.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
need_programs kvrelay_chaos kvrelay-router kvrelay-prefill kvrelay-decode
export KVRELAY_BINARY_DIR=$BUILD
exec "$BIN/kvrelay_chaos" "$@"
