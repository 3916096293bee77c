# ./dev bench: measures prefill and decode beside the limits of this machine
#
# usage: ./dev bench [ARGUMENTS of kvrelay_bench]
#
# Leave the machine alone while it runs.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
need_programs kvrelay_bench
exec "$BIN/kvrelay_bench" --model "$KVRELAY_MODEL" "$@"
