// Runs one request through real engines in a given way and keeps the logits of every selection, so that ways can be
// compared byte for byte. Used by the same-bits test and by the kvrelay_bits program.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/kernels/isa.h"
#include "common/kv/layout.h"
#include "common/model/model.h"

namespace kvrelay::testing {

enum class Way { kLocal, kSplit, kNoCache };

inline constexpr int kWarmTokens = 500;

// How a request is executed. None of this may change a bit, except the KV type and the model's weights.
struct BitsCase {
  Way way = Way::kLocal;
  int chunk = 8192;  // prompt rows per step; 8192: the whole prompt
  int threads = 1;
  int batch = 1;  // sessions that share the steps
  kernels::Isa isa = kernels::Isa::kScalar;
  kv::KvType kv_type = kv::KvType::kF16;
  bool warm = false;  // each engine holds the KV of the first kWarmTokens of the prompt
  std::optional<model_file::TensorType> weights = {};  // of a tiny model; none: the default model
  std::string architecture = "llama";                  // of the tiny model
};
std::string NameOf(const BitsCase& c);

struct BitsResult {
  std::vector<int32_t> tokens;
  std::vector<std::vector<float>> logits;  // per selection, [vocabulary]
  uint32_t reused = 0;                     // positions that the last engine began with
  uint32_t rows_in_step_max = 0;           // most rows that shared a step with a decode run of the request
};

// A prompt of `length` ids spread over the vocabulary; the same for the same arguments.
std::vector<int32_t> MakePrompt(int length, int vocabulary, uint64_t seed);

// Selects `count` tokens greedily. `model` was loaded for c.isa.
absl::StatusOr<BitsResult> RunCase(const model::Model& model, const BitsCase& c, absl::Span<const int32_t> prompt,
                                   int count);

// Empty if both are equal byte for byte; otherwise says where they first differ.
std::string Difference(const BitsResult& a, const BitsResult& b);

}  // namespace kvrelay::testing
