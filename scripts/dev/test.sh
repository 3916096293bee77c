# ./dev test: builds everything and runs all tests
#
# usage: ./dev test [--filter REGEX] [--preset release|dev|asan|tsan]
#
# Sets up if needed, installs Chromium, fetches what tests of the HTTP gateway and of the page use (Python packages, named
# in lib.sh) to models/python-VERSION, builds, and runs the tests through ctest, three at a time: the end-to-end ones
# mostly wait. Prints the time of every suite and
# a last line with the outcome; the exit code is 0 only if all passed. --filter runs the suites whose name matches:
# test_kv, check_layers, e2e_http, e2e_web and so on. The layering check is one of them.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"

preset=release filter=.
while [[ $# -gt 0 ]]; do
  want_value "$1" $#
  case $1 in
    --filter) filter=$2 ;;
    --preset) preset=$2 ;;
    *) die "test: no option $1; see ./dev test --help" ;;
  esac
  shift 2
done

bash scripts/dev/setup.sh
fetch_python_packages
need_chromium
bash scripts/dev/build.sh --preset "$preset"
build=$ROOT/build
[[ $preset == release ]] || build=$ROOT/build-$preset

export UBSAN_OPTIONS=print_stacktrace=1 CTEST_OUTPUT_ON_FAILURE=1
status=0
ctest --test-dir "$build" --parallel 3 --no-tests=error --tests-regex "$filter" --output-junit "$build/tests.xml" ||
  status=$?
python3 scripts/test_times.py "$build/tests.xml"
exit "$status"
