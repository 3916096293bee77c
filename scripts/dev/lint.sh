# ./dev lint: checks format, protocol files, layering and shell scripts
#
# usage: ./dev lint [--fix]
#
# Runs clang-format over all tracked C++ files (--fix rewrites them), buf lint over proto/ (buf comes from the Python
# package buf-bin, into build/lint), the layering check with its self-test, and shellcheck over the scripts where it
# is installed. Fails if any of them has something to say; what is not installed is named.
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

buf_lint() {
  local venv=$BUILD/lint
  if [[ ! -x $venv/bin/buf ]]; then
    python3 -m venv "$venv" || return 1
    "$venv/bin/python" -m pip install -q --disable-pip-version-check buf-bin==1.75.0 || return 1
  fi
  (cd proto && "$venv/bin/buf" lint)
}

if have clang-format; then
  check clang-format format
else
  say "missing clang-format (apt-get install clang-format)"
  failed+=(clang-format)
fi
if have buf; then
  check "buf lint" bash -c 'cd proto && buf lint'
elif python3 -c 'import ensurepip' 2>/dev/null; then
  check "buf lint" buf_lint
else
  say "skipped buf lint (apt-get install python3-venv)"
fi
check layering python3 scripts/check_layers.py
check "layering self-test" python3 scripts/check_layers.py --self-test
if have shellcheck; then
  # Not reported: settings that only the sourcing script reads, functions that only a trap calls.
  check shellcheck shellcheck -x -s bash -e SC2034,SC2317 dev .ci/run scripts/dev/*.sh
else
  say "skipped shellcheck (apt-get install shellcheck)"
fi
((${#failed[@]} == 0)) || die "lint: ${failed[*]}"
