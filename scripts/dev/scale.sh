# ./dev scale: placement with up to 10,000 workers and 16 routers, on virtual time
#
# usage: ./dev scale [--workers N,...] [--routers N,...] [--requests N] [--seed S]
#
# For each number of workers (10, 100, 1000, 10000; half of each role) and routers (1, 4, 16) two rows: unrelated
# prompts and workers that stay (uniform); prompts that share beginnings by Zipf's law, load in waves, and workers that
# come and go (skewed). A row is some 100 requests (--requests) for each worker of a role. Prints
#   decision us      CPU time of this machine to start a request at its router, until its first call is opened
#   busiest / mean   work assigned to a worker, in positions; uniform only
#   prompts found    share of prompt positions found in a cache, and what one endless cache of all would have had
#   calls each       to workers, per request; 2 if nothing is refused and nobody goes
#   longest wait s   from arrival to the first token
#   failed, starved  requests; starved: turned away while workers had room. Then the exit code is 1
# All but the times of decisions follow from the seed. A row with 10,000 workers needs 1 GB and up to ten minutes.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
need_programs kvrelay_scale
exec "$BIN/kvrelay_scale" "$@"
