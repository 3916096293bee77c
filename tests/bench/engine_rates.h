// Tokens per second of an engine in this process, without any RPC.
#pragma once

#include "common/engine/engine.h"

namespace kvrelay::bench {

// Prompt tokens per second for one prompt of `tokens`; the median of `rounds`.
double PrefillRate(engine::Engine& engine, int tokens, int rounds);
// Tokens per second over `batch` sessions together, `steps` tokens each, starting at `cached` positions.
double DecodeRate(engine::Engine& engine, int batch, int cached, int steps);

}  // namespace kvrelay::bench
