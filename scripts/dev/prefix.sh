# ./dev prefix: what prefix reuse saves: a chat's second turn, and 64 users of one system prompt
#
# usage: ./dev prefix
#
# Starts one prefill worker, one decode worker and a router of its own. Prints times to first token of first and second
# turns, the share of positions that were reused, and how many KV blocks 64 users of one system prompt need.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
source "$KVRELAY_ROOT/scripts/dev/processes.sh"
[[ $# == 0 ]] || die "prefix takes no arguments"
need_programs kvrelay kvrelay-prefill kvrelay-decode kvrelay-router
own_service 1 1 1
python3 scripts/prefix_reuse.py "$BIN/kvrelay" "$(address_of router-1)" "$(cat "$RUN/decode-1.metrics")"
