# Starting and stopping the processes of a local service; sourced by up, down, run and load.
#
# State in $RUN: <role>-<n>.pid, .log, .port, .metrics and, of routers, .http (host:port of gRPC, metrics and HTTP, written
# by the process itself once it listens), n from 1, and endpoints.json.
START_TIMEOUT_S=${KVRELAY_START_TIMEOUT_S:-60}
STOP_TIMEOUT_S=${KVRELAY_STOP_TIMEOUT_S:-10}

# is_ours NAME PID: whether that process still runs and is the one that we started: a reused process id is not. Our own
# child may still be on its way to become the program.
is_ours() {
  local program
  program=$(readlink "/proc/$2/exe" 2>/dev/null) || return 1
  [[ ${program##*/} == "kvrelay-${1%-*}"* ]] || grep -qs "^PPid:[[:space:]]*$$\$" "/proc/$2/status"
}

# use_tls: what is started from now on talks TLS, and the client in this shell too, with the files of $RUN/tls. Makes
# them if they are not there.
use_tls() {
  [[ -d $RUN/tls ]] || bash "$ROOT/scripts/dev/certs.sh" "$RUN/tls"
  TLS_DIR=$RUN/tls
  export KVRELAY_TLS_CA=$TLS_DIR/ca.crt KVRELAY_TOKEN_FILE=$TLS_DIR/token
}

# start_process NAME ARGUMENT...: starts kvrelay-<role> in a session of its own, so that Ctrl-C reaches it only
# through us. With KVRELAY_TIED=1 it also ends when this shell dies in whatever way.
start_process() {
  local name=$1 role=${1%-*} tie=() tls_flags=() http_flags=()
  shift
  [[ $role != router ]] || http_flags=(--http-listen 127.0.0.1:0 --http-port-file "$RUN/$name.http")
  if [[ -n ${TLS_DIR:-} ]]; then
    tls_flags=(--tls-cert "$TLS_DIR/$role.crt" --tls-key "$TLS_DIR/$role.key" --tls-ca "$TLS_DIR/ca.crt")
    [[ $role != router ]] || tls_flags+=(--client-tokens "$TLS_DIR/tokens")
  fi
  [[ ${KVRELAY_TIED:-0} == 1 ]] && tie=(setpriv --pdeathsig TERM)
  setsid "${tie[@]}" "$BIN/kvrelay-$role" --model "$KVRELAY_MODEL" --listen 127.0.0.1:0 --instance "$name" \
    --port-file "$RUN/$name.port" --metrics-listen 127.0.0.1:0 --metrics-port-file "$RUN/$name.metrics" "${http_flags[@]}" "${tls_flags[@]}" "$@" >"$RUN/$name.log" 2>&1 </dev/null &
  echo $! >"$RUN/$name.pid"
  disown # no message of the shell when it ends
}

show_log() {
  say "--- last lines of $1.log"
  tail -n 15 "$RUN/$1.log" >&2
  say "---"
}

# wait_for_port NAME: waits until the process listens.
wait_for_port() {
  local name=$1 pid deadline=$((SECONDS + START_TIMEOUT_S))
  pid=$(cat "$RUN/$name.pid")
  until grep -qs ':[0-9]' "$RUN/$name.port"; do
    if ! kill -0 "$pid" 2>/dev/null; then
      show_log "$name"
      say "error: $name ended while it started"
      return 1
    fi
    if ((SECONDS >= deadline)); then
      show_log "$name"
      say "error: $name does not listen after $START_TIMEOUT_S s"
      return 1
    fi
    sleep 0.05
  done
}

address_of() { cat "$RUN/$1.port"; }

# names ROLE COUNT: ROLE-1 ... ROLE-COUNT
names() { seq -f "$1-%.0f" 1 "$2"; }

write_endpoints() {
  local name entries=()
  for name in "$@"; do
    entries+=("$(printf '{"role": "%s", "instance": "%s", "address": "%s", "metrics": "%s", "pid": %s}' \
      "${name%-*}" "$name" "$(address_of "$name")" "$(cat "$RUN/$name.metrics")" "$(cat "$RUN/$name.pid")")")
  done
  local list
  list=$(printf ',\n  %s' "${entries[@]}")
  printf '{"grpc": "%s", "http": "%s", "metrics": "%s", "processes": [%s\n]}\n' "$(address_of router-1)" \
    "$(cat "$RUN/router-1.http")" "$(cat "$RUN/router-1.metrics")" "${list:1}" \
    >"$RUN/endpoints.json.new"
  mv "$RUN/endpoints.json.new" "$RUN/endpoints.json"
}

# start_service PREFILLS DECODES ROUTERS: starts all, waits until every router sees every worker, writes endpoints.json.
# On failure the reason has been shown and processes may be left: call stop_service.
start_service() {
  local name router_arguments=()
  local workers routers
  workers=$(names prefill "$1"; names decode "$2")
  routers=$(names router "$3")
  mkdir -p "$RUN"
  for name in $workers; do start_process "$name"; done
  for name in $workers; do
    wait_for_port "$name" || return 1
    router_arguments+=("--${name%-*}" "$(address_of "$name")")
  done
  for name in $routers; do start_process "$name" "${router_arguments[@]}"; done
  for name in $routers; do
    wait_for_port "$name" || return 1
    if ! "$BIN/kvrelay" wait --all --timeout-s "$START_TIMEOUT_S" --address "$(address_of "$name")" >&2; then
      show_log "$name"
      return 1
    fi
  done
  # shellcheck disable=SC2086 # lists of words
  write_endpoints $workers $routers
}

# stop_service: ends every process of $RUN and removes it. Safe to call at any time and twice.
stop_service() {
  local file name pid deadline=$((SECONDS + STOP_TIMEOUT_S)) signal=TERM left
  while true; do
    left=0
    for file in "$RUN"/*.pid; do
      [[ -e $file ]] || continue
      name=$(basename "$file" .pid)
      pid=$(cat "$file")
      is_ours "$name" "$pid" || continue
      left=1
      [[ $signal == "wait" ]] || kill "-$signal" "$pid" 2>/dev/null || true
    done
    ((left == 1)) || break
    if [[ $signal == TERM ]]; then signal="wait"; fi
    if ((SECONDS >= deadline)); then signal=KILL; fi
    sleep 0.05
  done
  rm -rf "$RUN"
}

# own_service PREFILLS DECODES ROUTERS: a service in a directory of its own that ends with this shell, whatever ends it.
own_service() {
  RUN=$(mktemp -d "${TMPDIR:-/tmp}/kvrelay-run.XXXXXX")
  KVRELAY_TIED=1
  trap 'stop_service' EXIT
  trap 'exit 130' INT TERM
  start_service "$@" || die "the service did not start"
}
