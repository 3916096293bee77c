# ./dev down: stops what up started
#
# usage: ./dev down
#
# Asks every process of .run to stop, kills what is still there after 10 s, and removes .run. Nothing to stop is no
# error.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
source "$KVRELAY_ROOT/scripts/dev/processes.sh"
[[ $# == 0 ]] || die "down takes no arguments"
stop_service
