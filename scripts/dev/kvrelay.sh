# ./dev kvrelay: runs the client against the service that up started
#
# usage: ./dev kvrelay COMMAND [ARGUMENTS]; ./dev kvrelay --help shows the client's own help
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
need_programs kvrelay
if [[ -f $RUN/endpoints.json ]]; then
  KVRELAY_ADDRESS=$(sed -n 's/.*"role": "router",.*"address": "\([^"]*\)".*/\1/p' "$RUN/endpoints.json" | paste -sd,)
  export KVRELAY_ADDRESS # the client reads it where no --address is given
fi
exec "$BIN/kvrelay" "$@"
