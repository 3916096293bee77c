# ./dev load: 60 s of load by ghz, 4 streams at a time
#
# usage: ./dev load [ARGUMENTS of ghz]
#
# Runs tests/load/ghz.json against the service that is up, or else against one that it starts and stops: prompts of
# 128 and more tokens that differ in their first words, 64 new tokens each, execution SPLIT. The request is found by
# reflection, and {{.RequestNumber}} in it is filled in by ghz. Prints rate and latency of whole streams (ghz sees
# only their end), and writes the report to build/load-report.json. Fails if any stream failed. ghz is installed by
# `go install` (Go 1.24 or newer) into build/tools when it is not there. Arguments override the file: ./dev load -z
# 10s
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
source "$KVRELAY_ROOT/scripts/dev/processes.sh"
need_programs kvrelay kvrelay-prefill kvrelay-decode kvrelay-router

ghz=$(command -v ghz || echo "$BUILD/tools/ghz")
if [[ ! -x $ghz ]]; then
  have go || die "ghz is missing, and Go to install it: https://go.dev/dl, or put ghz 0.121.0 into PATH"
  say "installing ghz into $BUILD/tools"
  GOBIN=$BUILD/tools go install github.com/bojand/ghz/cmd/ghz@v0.121.0
fi

[[ -f $RUN/endpoints.json ]] || own_service 1 1 1
report=$BUILD/load-report.json
"$ghz" --config tests/load/ghz.json --format json --output "$report" "$@" "$(address_of router-1)"
python3 scripts/load_summary.py "$report"
