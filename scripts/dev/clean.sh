# ./dev clean: removes what building and running left
#
# usage: ./dev clean [--all]
#
# Stops the local service and removes build/, build-*/ and .run/. --all removes the fetched model too.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
source "$KVRELAY_ROOT/scripts/dev/processes.sh"
[[ $# == 0 || $* == --all ]] || die "clean: no option $1; see ./dev clean --help"
stop_service
rm -rf "$ROOT"/build "$ROOT"/build-*/
[[ ${1:-} != --all ]] || rm -rf "$ROOT/models"
