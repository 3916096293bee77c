# ./dev build: compiles everything
#
# usage: ./dev build [--preset release|dev|asan|tsan|analyze|fuzz] [TARGET...]
#
# Compiles into build/ (preset release, the default) or build-PRESET/. Without a TARGET, everything but the tools of
# long-running commands, which these build when they need them. Programs land in
# bin/ of that directory. Runs as many compilers as there are CPUs and as memory allows (1.5 GB each).
source "$KVRELAY_ROOT/scripts/dev/lib.sh"

preset=release targets=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --preset) want_value "$1" $#; preset=$2; shift 2 ;;
    -*) die "build: no option $1; see ./dev build --help" ;;
    *) targets+=("$1"); shift ;;
  esac
done
if ! have cmake || ! have ninja; then die "cmake or ninja is missing; run ./dev setup first"; fi

jobs=$(nproc)
memory=$(awk '/^MemAvailable:/ {print int($2 / 1500000)}' /proc/meminfo)
((memory >= jobs)) || jobs=$((memory > 1 ? memory : 1))

started=$SECONDS
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cmake --preset "$preset" >"$log" 2>&1 || { cat "$log" >&2; die "configuring failed"; }
cmake --build --preset "$preset" --parallel "$jobs" ${targets:+--target "${targets[@]}"}
say "built preset $preset in $(seconds_since $started) s"
