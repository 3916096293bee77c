# ./dev handover: measures the tail of handoffs and the gap that a live move adds to streams
#
# usage: ./dev handover [--repeats N] [--streams S]
#
# Handoffs of prompts of 512 and 2048 tokens, N each: time from the end of the last layer to the receipt, the part of the
# transfer hidden behind the computation, and what the link costs the prefill worker in CPU time. Then a decode worker
# drains with S live streams: all must be byte-equal to undisturbed ones with nothing computed again; prints the added
# gap. One compute thread a worker.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
need_programs kvrelay_handover kvrelay-router kvrelay-prefill kvrelay-decode
export KVRELAY_BINARY_DIR=$BUILD
exec "$BIN/kvrelay_handover" "$@"
