# ./dev up: starts a local service in the background
#
# usage: ./dev up [--prefill P] [--decode D] [--routers R] [--tls]        (1 each by default; P may be 0)
#
# Starts the processes on free loopback ports, waits until the routers see their workers, and writes
# .run/endpoints.json:
#   {"grpc": "host:port", "http": "host:port", "metrics": "host:port",
#    "processes": [{"role": "prefill", "instance": "prefill-1", "address": "host:port", "metrics": "host:port", "pid": 1}]}
# `grpc`, `http` and `metrics` are the first router's. Beside it: .run/<role>-<n>.pid and .run/<role>-<n>.log. With --tls every
# connection is TLS (`http` is then HTTPS), and clients need a token: certificates and token are made in .run/tls, where
# ./dev kvrelay finds them. Refuses when a service is up already.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
source "$KVRELAY_ROOT/scripts/dev/processes.sh"

prefill=1 decode=1 routers=1 with_tls=0
while [[ $# -gt 0 ]]; do
  if [[ $1 == --tls ]]; then
    with_tls=1
    shift
    continue
  fi
  want_value "$1" $#
  [[ $2 =~ ^[0-9]{1,3}$ ]] || die "$1 $2: a number from 0 to 999 is wanted"
  case $1 in
    --prefill) prefill=$2 ;;
    --decode) decode=$2 ;;
    --routers) routers=$2 ;;
    *) die "up: no option $1; see ./dev up --help" ;;
  esac
  shift 2
done
((routers >= 1)) || die "at least one router is needed"
((decode >= 1)) || die "at least one decode worker is needed"
need_programs kvrelay kvrelay-prefill kvrelay-decode kvrelay-router
[[ -e $KVRELAY_MODEL ]] || die "no model at $KVRELAY_MODEL; run ./dev setup first"
[[ ! -e $RUN ]] || die "a service is up already ($RUN exists); ./dev down ends it"

trap 'stop_service' EXIT
trap 'exit 130' INT TERM
if ((with_tls)); then use_tls; fi
start_service "$prefill" "$decode" "$routers" || die "the service did not start"
trap - EXIT
say "up: $prefill prefill, $decode decode, $routers routers; gRPC at $(address_of router-1), http${TLS_DIR:+s}://$(cat "$RUN/router-1.http")"
