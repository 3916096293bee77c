# ./dev fuzz: searches for bytes that break what reads them
#
# usage: ./dev fuzz [TARGET...] [--minutes M] [--jobs J]
#
# Builds the fuzz targets of tests/fuzz in build-fuzz/ with clang 16, libFuzzer and the address and undefined-behavior
# sanitizers (installing clang-16, libclang-rt-16-dev and llvm-16 if they are missing), and runs each for M minutes
# (default 10), J of them at a time (default 1). Without a TARGET, all: folder, gguf, handoff, http, request, template,
# vocabulary, worker_calls, worker_spec. What a run learns stays in build-fuzz/corpus/TARGET for the next one. Prints executions,
# edges covered and findings of each; the exit code is 1 if there is a finding, with the command that replays it.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"

all=(folder gguf handoff http request template vocabulary worker_calls worker_spec)
minutes=10 jobs=1 targets=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --minutes) want_value "$1" $#; minutes=$2; shift 2 ;;
    --jobs) want_value "$1" $#; jobs=$2; shift 2 ;;
    -*) die "fuzz: no option $1; see ./dev fuzz --help" ;;
    *) targets+=("$1"); shift ;;
  esac
done
[[ $minutes =~ ^[0-9]{1,4}$ && $minutes -ge 1 ]] || die "--minutes $minutes: a number from 1 to 9999 is wanted"
[[ $jobs =~ ^[0-9]{1,3}$ && $jobs -ge 1 ]] || die "--jobs $jobs: a number from 1 to 999 is wanted"
((${#targets[@]} > 0)) || targets=("${all[@]}")
for target in "${targets[@]}"; do
  [[ " ${all[*]} " == *" $target "* ]] || die "fuzz: no target $target; there are: ${all[*]}"
done

fuzz=$ROOT/build-fuzz
logs=$fuzz/logs
install_missing clang-16 libclang-rt-16-dev llvm-16
bash scripts/dev/build.sh --preset fuzz make_gguf_corpus "${targets[@]/#/fuzz_}"
mkdir -p "$logs"
"$fuzz/tests/fuzz/make_gguf_corpus" "$fuzz/gguf_seeds"

# worker_calls has threads that allocate meanwhile, so libFuzzer would look for leaks after nearly every input: not there.
search() { # search TARGET: its log gets a last line "exit CODE"
  local target=$1 options=() corpus=$fuzz/corpus/$1 findings=$fuzz/findings/$1 code=0
  mkdir -p "$corpus" "$findings"
  [[ ! -f tests/fuzz/$target.dict ]] || options+=("-dict=tests/fuzz/$target.dict")
  [[ $target != gguf ]] || options+=("$fuzz/gguf_seeds")
  [[ $target != worker_calls ]] || options+=(-detect_leaks=0)
  "$fuzz/tests/fuzz/fuzz_$target" -max_total_time=$((minutes * 60)) -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
    -artifact_prefix="$findings/" "${options[@]}" "$corpus" "tests/fuzz/corpus/$target" >"$logs/$target.log" 2>&1 || code=$?
  echo "exit $code" >>"$logs/$target.log"
}

export UBSAN_OPTIONS=print_stacktrace=1
ASAN_OPTIONS=external_symbolizer_path=$(command -v llvm-symbolizer-16 || true)
export ASAN_OPTIONS
say "fuzzing ${#targets[@]} targets for $minutes minutes each, $jobs at a time; logs in $logs"
for target in "${targets[@]}"; do
  while (($(jobs -rp | wc -l) >= jobs)); do wait -n; done
  search "$target" &
done
wait

found=0
printf '%-14s%14s%12s%10s%10s\n' target executions per-second edges findings
for target in "${targets[@]}"; do
  log=$logs/$target.log
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
  edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  finding=0
  grep -qx 'exit 0' "$log" || finding=1
  printf '%-14s%14s%12s%10s%10s\n' "$target" "${executions:--}" "${rate:--}" "${edges:--}" "$finding"
  ((finding)) || continue
  found=1
  input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
  say "finding in $target ($(grep -am 1 -E 'ERROR:|runtime error:|broken promise' "$log" || echo "see $log"))"
  say "  replay: $fuzz/tests/fuzz/fuzz_$target ${input:-}"
done
exit "$found"
