# ./dev bench: measures prefill and decode beside the limits of this machine, and beside llama.cpp
#
# usage: ./dev bench [--peer] [--long] [--rounds N] [--threads N] [--isa ISA] [--json] [--plot FILE]
#
# The engine in one process, without any RPC; 128 cached positions unless a name says otherwise. Native and OpenBLAS.
# --peer interleaves llama.cpp in four formats of the same model (from $KVRELAY_PEER_HOME, with PEER_ISA=avx2 its build
# without AVX-512) and prints ratios to its best format and to the same file. --long adds 8,192 positions. --json prints
# one object. --plot FILE draws the rates (SVG, needs matplotlib). Leave the machine alone while it runs.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
need_programs kvrelay_bench
exec python3 scripts/bench.py --binary "$BIN/kvrelay_bench" --model "$KVRELAY_MODEL" "$@"
