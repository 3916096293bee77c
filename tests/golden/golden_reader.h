// Reads the goldens of this folder. Model goldens: what an independent implementation computed in f32 on the default
// model's dequantized weights (make_goldens.py). Two files in tests/golden/data:
//
//   model_goldens.json   provenance; top (64); fixed_ids (256); prompts: name, text or messages, ids, positions, and
//   for some
//                        `greedy`: the tokens that follow. The checked sequence is ids and all of greedy but its last.
//   model_goldens.bin    "KVGOLD01" record{sum of all prompts' positions}, in the order of prompts and their positions
//     record             min:f32 max:f32 gap:f32 log_sum_exp:f32 top_id:u32{64} top_logit:f32{64} fixed_logit:f32{256}
//                        little-endian; gap = largest - second largest logit; top by (logit descending, id ascending);
//                        fixed_logit[i] belongs to fixed_ids[i]
//
// Option goldens: what transformers and OpenAI's formula make of such logits with bias, penalties and so on
// (make_option_goldens.py). data/option_goldens.json has provenance and cases.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace kvrelay::testing {

inline constexpr int kGoldenTop = 64;
inline constexpr int kGoldenFixed = 256;

// Exactly as in the file.
struct GoldenRecord {
  float min, max, gap, log_sum_exp;
  std::array<uint32_t, kGoldenTop> top_ids;
  std::array<float, kGoldenTop> top_logits;
  std::array<float, kGoldenFixed> fixed_logits;

  float Range() const { return max - min; }
};
static_assert(sizeof(GoldenRecord) == 4 * (4 + 2 * kGoldenTop + kGoldenFixed));

struct GoldenPrompt {
  std::string name;
  std::vector<int32_t> ids;
  std::vector<int32_t> greedy;        // empty, or the tokens that follow
  std::vector<int> positions;         // ascending, each inside Sequence()
  std::vector<GoldenRecord> records;  // one per position

  std::vector<int32_t> Sequence() const;
};

struct ModelGoldens {
  std::string model_sha256;
  std::array<uint32_t, kGoldenFixed> fixed_ids;
  std::vector<GoldenPrompt> prompts;
};

// One selection. Its vocabulary is small: the ids that a record has logits of, ascending, numbered from 0.
struct OptionGolden {
  std::vector<float> logits;
  std::vector<int32_t> prompt, output;
  float repetition_penalty, presence_penalty, frequency_penalty;
  std::vector<std::pair<int32_t, float>> bias;
  std::vector<int32_t> allowed;  // empty: all
  float temperature, top_p, min_p;
  uint32_t top_k;
  // Of allowed ids: bits of the scores that differ from their logits, after bias and penalties.
  std::vector<std::pair<int32_t, uint32_t>> scores;
  int32_t greedy;                     // the best
  std::vector<int32_t> kept, likely;  // what temperature, top_k, top_p and min_p leave; empty if it is much
};

// A tiny model of one family (make_family_goldens.py).
struct FamilyGolden {
  std::string name;                                                 // "qwen3"
  std::string gguf, folder;                                         // paths
  std::vector<int32_t> ids;                                         // a sequence
  std::vector<int32_t> top;                                         // [ids]: the best id after each
  std::vector<int> positions;                                       // whose logits follow
  std::vector<std::vector<float>> logits;                           // [positions][vocabulary]
  std::vector<std::pair<std::string, std::vector<int32_t>>> texts;  // text and its ids
};

// From tests/golden/data below KVRELAY_SOURCE_DIR (the current folder if it is not set). NOT_FOUND or DATA_LOSS, saying
// what is wrong with which file.
absl::StatusOr<ModelGoldens> LoadModelGoldens();
absl::StatusOr<std::vector<OptionGolden>> LoadOptionGoldens();
// From family_models below KVRELAY_BINARY_DIR, where the test family_models unpacks them; ascending by name.
absl::StatusOr<std::vector<FamilyGolden>> LoadFamilyGoldens();

}  // namespace kvrelay::testing
