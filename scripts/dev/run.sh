# ./dev run: answers one prompt with a real model in three processes, from nothing
#
# usage: ./dev run "PROMPT" [ARGUMENTS of `kvrelay run`]
#
# Sets up and builds if needed, starts one prefill worker, one decode worker and one router on free loopback ports,
# streams the answer, prints one line of figures, and stops the processes again, also on Ctrl-C and on failure.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
source "$KVRELAY_ROOT/scripts/dev/processes.sh"
[[ $# -ge 1 ]] || die 'a prompt is wanted: ./dev run "What is the capital of France?"'

if [[ -z ${KVRELAY_BUILD_DIR:-} ]]; then
  bash scripts/dev/setup.sh
  bash scripts/dev/build.sh kvrelay kvrelay-router kvrelay-prefill kvrelay-decode >&2
fi
own_service 1 1 1

# In the background and waited for, so that a signal to this script is acted on at once.
# A system turn given on the command line replaces the demo's; and the demo shows the split, though so short a prompt
# may cost less on one worker.
demo=()
[[ " $* " == *" --system"* ]] || demo+=(--system "$DEMO_SYSTEM")
[[ " $* " == *" --execution"* ]] || demo+=(--execution split)
setpriv --pdeathsig INT "$BIN/kvrelay" run --address "$(address_of router-1)" "${demo[@]}" "$@" <&0 &
client=$!
cancel() { # cancel EXIT_CODE: waits until the client has cancelled its request
  trap '' INT TERM
  local n
  for n in $(seq 50); do
    kill -0 "$client" 2>/dev/null || break
    # Ctrl-C on a terminal has reached the client by itself; a signal to this script alone has not.
    [[ $n != 10 ]] || kill -INT "$client"
    sleep 0.05
  done
  exit "$1"
}
trap 'cancel 130' INT
trap 'cancel 143' TERM
status=0
wait "$client" || status=$?
exit "$status"
