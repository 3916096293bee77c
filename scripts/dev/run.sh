# ./dev run: answers one prompt with a real model in three processes, from nothing
#
# usage: ./dev run "PROMPT" [ARGUMENTS of `kvrelay run`]
#
# Sets up and builds if needed, starts one prefill worker, one decode worker and one router on free loopback ports, streams
# the answer, prints one line of figures, and stops the processes again, also on Ctrl-C and on failure.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
source "$KVRELAY_ROOT/scripts/dev/processes.sh"
[[ $# -ge 1 ]] || die 'a prompt is wanted: ./dev run "What is the capital of France?"'

if [[ -z ${KVRELAY_BUILD_DIR:-} ]]; then
  bash scripts/dev/setup.sh
  bash scripts/dev/build.sh kvrelay kvrelay-router kvrelay-prefill kvrelay-decode >&2
fi
own_service 1 1 1

# In the background and waited for, so that a signal to this script is acted on at once.
"$BIN/kvrelay" run --address "$(address_of router-1)" "$@" <&0 &
client=$!
cancel() { # cancel EXIT_CODE: the client cancels its request and ends; it has had Ctrl-C itself
  trap '' INT TERM
  local n
  for n in $(seq 40); do kill -0 "$client" 2>/dev/null || exit "$1"; sleep 0.05; done
  kill -KILL "$client" 2>/dev/null
  exit "$1"
}
trap 'cancel 130' INT
trap 'kill -INT "$client"; cancel 143' TERM
status=0
wait "$client" || status=$?
exit "$status"
