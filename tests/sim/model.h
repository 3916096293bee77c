// The model of a simulation: tokens, keys and values are arithmetic over the history, so that every way to execute a
// request must give the same, and what it must give can be computed beside it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/kv/sequence_cache.h"
#include "common/sampling/end_rule.h"
#include "kvrelay/worker/v1/worker.pb.h"

namespace kvrelay::sim {

inline constexpr int kVocabulary = 96;
inline constexpr int32_t kEos = 0;
inline constexpr kv::KvLayout kLayout{.layers = 2, .kv_heads = 1, .head_dim = 16, .type = kv::KvType::kF16};
inline constexpr int kContextLength = 512;
inline constexpr char kFingerprint[] = "5eed5eed5eed5eed";
inline constexpr char kNumerics[] = "1-sim-f16-sim";

// Raw logits [kVocabulary] after a history.
void FillLogits(absl::Span<const int32_t> history, std::vector<float>* logits);
// Bytes of a token: letters, and halves of characters that have two bytes.
std::string TokenBytes(int32_t id);

// Writes keys and values of positions [first, first + tokens.size()) in one layer.
void WriteKv(kv::SequenceCache* cache, int layer, int first, absl::Span<const int32_t> tokens);
// The first position below kv_ready() whose keys or values are not those of the history; -1 if there is none.
int FirstWrongPosition(const kv::SequenceCache& cache, absl::Span<const int32_t> history);

// What a request must give.
struct Answer {
  struct Token {
    int32_t id;
    float logprob;
    std::vector<std::pair<int32_t, float>> top;
  };
  std::vector<Token> tokens;
  std::string text;
  sampling::EndReason end = sampling::EndReason::kNone;  // kNone: a stop string
};
Answer Expected(const worker::v1::GenerationSpec& spec, const std::vector<std::string>& stop);

}  // namespace kvrelay::sim
