# ./dev quality: mean KL divergence and perplexity, ours and llama.cpp's, to the f32 reference
#
# usage: ./dev quality [--windows N]
#
# Scores tests/bench/quality_text.txt in N windows of 512 tokens (default 12; the second half of each is scored). The
# reference is llama.cpp on the model dequantized to F32 with an f32 cache; ours and llama.cpp on the model file itself
# are compared with it on the same windows and positions. Needs llama-quantize and llama-perplexity in
# $KVRELAY_PEER_HOME/bin and about 1 GB of temporary space.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"

windows=12
while [[ $# -gt 0 ]]; do
  want_value "$1" $#
  case $1 in
    --windows) windows=$2 ;;
    *) die "quality: no option $1; see ./dev quality --help" ;;
  esac
  shift 2
done
need_programs kvrelay_quality
peer=${KVRELAY_PEER_HOME:-$HOME/.cache/kvrelay-peer}/bin
for program in llama-quantize llama-perplexity; do
  [[ -x $peer/$program ]] || die "no $program in $peer; set KVRELAY_PEER_HOME to a build of llama.cpp"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
text=$ROOT/tests/bench/quality_text.txt threads=$(nproc)

perplexity() { # perplexity LOG ARGUMENTS...
  local log=$1
  shift
  "$peer/llama-perplexity" -t "$threads" -c 512 -b 512 --chunks "$windows" "$@" >"$log" 2>&1 ||
    { tail -n 5 "$log" >&2; die "llama-perplexity failed"; }
}
say "reference: F32 weights, f32 cache"
"$peer/llama-quantize" --allow-requantize "$KVRELAY_MODEL" "$work/f32.gguf" F32 >"$work/quantize.log" 2>&1 ||
  { tail -n 5 "$work/quantize.log" >&2; die "llama-quantize failed"; }
perplexity "$work/base.log" -m "$work/f32.gguf" -f "$text" --kl-divergence-base "$work/base" -ctk f32 -ctv f32 -fa off
say "llama.cpp on the file itself"
perplexity "$work/peer.log" -m "$KVRELAY_MODEL" --kl-divergence-base "$work/base" --kl-divergence
say "ours"
for run in "native f16" "native f32" "native bf16" "native int8" "openblas f32"; do
  read -r matmul kv <<<"$run"
  "$BIN/kvrelay_quality" --model "$KVRELAY_MODEL" --base "$work/base" --matmul "$matmul" --kv-type "$kv" >>"$work/ours"
done
python3 scripts/quality_table.py "$work/peer.log" "$work/ours"
