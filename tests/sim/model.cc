#include "tests/sim/model.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "common/base/check.h"
#include "common/sampling/sampler.h"
#include "common/text/stream_decoder.h"

namespace kvrelay::sim {
namespace {

using kv::kBlockPositions;

constexpr size_t kEcho = 20;

// Keys, or values, of one position: finite f16 between 1 and 2.
constexpr int kRowWords = 4;
using Row = std::array<uint64_t, kRowWords>;
static_assert(sizeof(Row) == kLayout.kv_heads * kLayout.head_dim * sizeof(uint16_t));

Row MakeRow(int layer, int position, int32_t token, bool value) {
  uint64_t state = (uint64_t(layer) << 40) ^ (uint64_t(position) << 20) ^ (uint64_t(token) << 1) ^ value;
  Row row;
  for (uint64_t& word : row) {
    state = (state + 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u;
    state ^= state >> 31;
    word = 0x3C003C003C003C00u | (state & 0x03FF03FF03FF03FFu);
  }
  return row;
}

// The wire form of positions of one layer that share a block: all keys, then all values.
std::vector<Row> MakeRows(int layer, int first, absl::Span<const int32_t> tokens) {
  std::vector<Row> rows(2 * tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int position = first + static_cast<int>(i);
    rows[i] = MakeRow(layer, position, tokens[i], false);
    rows[tokens.size() + i] = MakeRow(layer, position, tokens[i], true);
  }
  return rows;
}

using Counts = std::array<int, kVocabulary>;

Counts CountsOf(absl::Span<const int32_t> tokens) {
  Counts counts{};
  for (const int32_t token : tokens) ++counts[token];
  return counts;
}

// The options of generation.proto by their formulas, from prompt and output as a whole: what sessions must arrive at
// step by step, wherever their stream has been.
std::vector<float> Scores(const worker::v1::GenerationSpec& spec, const std::vector<float>& logits,
                          absl::Span<const int32_t> history) {
  const float repetition = spec.has_repetition_penalty() ? spec.repetition_penalty() : 1;
  const Counts all = CountsOf(history), output = CountsOf(history.subspan(spec.prompt_length()));
  std::vector<float> scores = logits;
  for (const auto& [id, bias] : spec.logit_bias()) scores[id] += bias;
  for (int32_t id = 0; id < kVocabulary; ++id) {
    float& x = scores[id];
    if (all[id] > 0) x = x < 0 ? x * repetition : x / repetition;
    x -= spec.frequency_penalty() * static_cast<float>(output[id]);
    if (output[id] > 0) x -= spec.presence_penalty();
  }
  return scores;
}

// Ids that may not be selected as token `index`.
std::vector<int32_t> Banned(const worker::v1::GenerationSpec& spec, const sampling::EndRule& rule, uint32_t index) {
  std::vector<int32_t> banned = sampling::BannedIds(rule, index);
  const auto& allowed = spec.allowed_token_ids();
  for (int32_t id = 0; !allowed.empty() && id < kVocabulary; ++id)
    if (std::find(allowed.begin(), allowed.end(), static_cast<uint32_t>(id)) == allowed.end()) banned.push_back(id);
  return banned;
}

int BlockEnd(int position) { return (position / kBlockPositions + 1) * kBlockPositions; }

}  // namespace

// Mostly what stood kEcho tokens before, so that guesses are right as well as wrong.
void FillLogits(absl::Span<const int32_t> history, std::vector<float>* logits) {
  uint32_t mixed = 17;
  for (const int32_t token : history) mixed = mixed * 31 + static_cast<uint32_t>(token) + 1;
  mixed ^= mixed >> 15;
  mixed *= 0x2C1B3C6Du;
  mixed ^= mixed >> 12;
  logits->assign(kVocabulary, 0);
  int32_t best = mixed % 89 == 0 ? kEos : 1 + static_cast<int32_t>(mixed % (kVocabulary - 1));
  if (best != kEos && history.size() > kEcho && (mixed >> 8) % 8 != 0) best = history[history.size() - kEcho];
  for (int i = 0; i < 3; ++i) (*logits)[(best + i * 7) % kVocabulary] = 6.0f - static_cast<float>(i);
}

std::string TokenBytes(int32_t id) {
  if (id == kEos) return "";
  if (id >= 90) return id % 2 == 0 ? "\xC3" : "\xA9";
  return std::string(1, static_cast<char>('a' + id % 8));
}

void WriteKv(kv::SequenceCache* cache, int layer, int first, absl::Span<const int32_t> tokens) {
  while (!tokens.empty()) {
    const size_t count = std::min<size_t>(tokens.size(), BlockEnd(first) - first);
    const std::vector<Row> rows = MakeRows(layer, first, tokens.first(count));
    cache->CopyIn(layer, first, static_cast<int>(count),
                  absl::MakeSpan(reinterpret_cast<const std::byte*>(rows.data()), rows.size() * sizeof(Row)));
    first += static_cast<int>(count);
    tokens.remove_prefix(count);
  }
}

int FirstWrongPosition(const kv::SequenceCache& cache, absl::Span<const int32_t> history) {
  const int ready = cache.kv_ready();
  if (ready > static_cast<int>(history.size())) return static_cast<int>(history.size());
  for (int layer = 0; layer < kLayout.layers; ++layer) {
    for (int first = 0; first < ready;) {
      const int count = std::min(ready, BlockEnd(first)) - first;
      const std::vector<Row> want = MakeRows(layer, first, history.subspan(first, count));
      std::vector<Row> found(want.size());
      cache.CopyOut(layer, first, count,
                    absl::MakeSpan(reinterpret_cast<std::byte*>(found.data()), found.size() * sizeof(Row)));
      const auto wrong = std::mismatch(want.begin(), want.end(), found.begin()).first;
      if (wrong != want.end()) return first + static_cast<int>((wrong - want.begin()) % count);
      first += count;
    }
  }
  return -1;
}

Answer Expected(const worker::v1::GenerationSpec& spec, const std::vector<std::string>& stop) {
  sampling::EndRule rule{
      .eos_ids = {}, .stop_ids = {}, .max_tokens = spec.max_tokens(), .min_tokens = spec.min_tokens()};
  if (!spec.ignore_eos()) rule.eos_ids = {kEos};
  rule.stop_ids.assign(spec.stop_token_ids().begin(), spec.stop_token_ids().end());
  const sampling::SamplingParams params{.temperature = spec.temperature(), .top_p = spec.top_p(), .seed = spec.seed()};
  std::vector<int32_t> history(spec.token_ids().begin(), spec.token_ids().begin() + spec.prompt_length());
  std::vector<float> logits;
  text::StreamDecoder decoder(stop);
  Answer answer;
  for (uint32_t index = 0;; ++index) {
    FillLogits(history, &logits);
    const std::vector<float> scores = Scores(spec, logits, history);
    const auto selectable = sampling::SelectableIds({}, Banned(spec, rule, index));
    const auto selection = sampling::Select({.logits = logits, .scores = scores, .selectable = selectable}, params,
                                            history.size(), static_cast<int>(spec.logprobs()));
    KV_CHECK(selection.ok(), "the model's logits are sound");
    Answer::Token token{.id = selection->token, .logprob = selection->logprob, .top = {}};
    for (const sampling::TopToken& top : selection->top) token.top.emplace_back(top.id, top.logprob);
    answer.tokens.push_back(std::move(token));
    history.push_back(selection->token);
    answer.end = sampling::EndsRequest(rule, index + 1, selection->token);
    const bool end_token = answer.end == sampling::EndReason::kEos || answer.end == sampling::EndReason::kStopToken;
    const auto piece = decoder.Add(end_token ? "" : TokenBytes(selection->token), index + 1 >= spec.min_tokens());
    answer.text += piece.text;
    if (piece.stopped) {
      answer.end = sampling::EndReason::kNone;
      return answer;
    }
    if (answer.end != sampling::EndReason::kNone) break;
  }
  answer.text += decoder.Flush();
  return answer;
}

}  // namespace kvrelay::sim
