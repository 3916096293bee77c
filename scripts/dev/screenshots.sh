# ./dev screenshots: the pictures of the page in README.md and docs/kv-cache.md
#
# usage: ./dev screenshots
#
# Starts a service of its own (one prefill worker, two decode workers, one router), opens its page in Chromium and writes
# docs/images/. Installs Chromium, and fetches the Python packages of the tests, if they are missing.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
source "$KVRELAY_ROOT/scripts/dev/processes.sh"
[[ $# == 0 ]] || die "screenshots takes no arguments"

if [[ -z ${KVRELAY_BUILD_DIR:-} ]]; then
  bash scripts/dev/setup.sh
  bash scripts/dev/build.sh kvrelay kvrelay-router kvrelay-prefill kvrelay-decode >&2
fi
need_chromium
fetch_python_packages
own_service 1 2 1
KVRELAY_SOURCE_DIR=$ROOT python3 scripts/screenshots.py "http://$(cat "$RUN/router-1.http")" docs/images
ls -l docs/images >&2
