# ./dev sim: runs the protocol of router and workers in a simulated cluster, with faults, and checks every stream
#
# usage: ./dev sim [--seeds N] [--first S] [--jobs J]     N seeds (300) from S (1) on
#        ./dev sim --seed N [--trace]                     one seed, with every event
#        ./dev sim [--seeds N | --seed N] --bug NAME      with a planted bug
#        ./dev sim --bugs                                 plants each bug in turn until it is found
#
# A seed is one run of 2 routers, 2 prefill and 3 decode workers, 55 requests and 5 faults aimed at states of requests,
# on virtual time: nothing but the seed decides what happens. Prints violations with the command that replays them, and
# how often each edge (state of the request, fault) was struck. Exit code 1: something was violated, or a planted bug
# was not found within 2,000 seeds.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
need_programs kvrelay_sim
exec "$BIN/kvrelay_sim" "$@"
