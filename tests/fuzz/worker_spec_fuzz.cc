// Any bytes as a router's GenerationSpec: a worker refuses it, or runs exactly what it says.
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/check.h"
#include "common/engine/validate.h"
#include "common/worker/spec.h"
#include "tests/fuzz/spoil.h"
#include "tests/worker/fake_engine.h"
#include "tests/worker/test_client.h"

namespace kvrelay::fuzz {
namespace {

constexpr int kVocabulary = 300;

struct Worker {
  Worker() {
    context.engine = &engine;
    context.vocabulary = kVocabulary;
    context.eos_ids = {2, 7};
  }
  testing::FakeEngine engine;
  worker::WorkerContext context;
};

bool InVocabulary(const std::vector<int32_t>& ids) {
  return std::all_of(ids.begin(), ids.end(), [](int32_t id) { return id >= 0 && id < kVocabulary; });
}

void CheckParsed(const worker::v1::GenerationSpec& given, const engine::SessionSpec& spec) {
  KV_CHECK(std::equal(spec.tokens.begin(), spec.tokens.end(), given.token_ids().begin(), given.token_ids().end(),
                      [](int32_t ours, uint32_t theirs) { return static_cast<uint32_t>(ours) == theirs; }),
           "the tokens are those given");
  KV_CHECK(InVocabulary(spec.tokens) && InVocabulary(spec.end_rule.stop_ids) && InVocabulary(spec.allowed_ids),
           "ids are in the vocabulary");
  for (const auto& [id, bias] : spec.logit_options.bias)
    KV_CHECK(InVocabulary({id}) && std::isfinite(bias), "biases are of tokens");
  KV_CHECK(spec.prompt_length >= 1 && spec.prompt_length <= spec.tokens.size(), "the prompt is part of the tokens");
  KV_CHECK(spec.end_rule.min_tokens <= spec.end_rule.max_tokens && spec.end_rule.max_tokens >= 1, "min <= max");
}

// What the engine does with a spec that it takes, but for the model.
void CheckReserved(const engine::Session& session, int context_length) {
  const engine::SessionSpec& spec = session.spec();
  const int positions = session.cache()->capacity();
  KV_CHECK(positions >= static_cast<int>(spec.tokens.size()) && positions <= context_length, "room for the request");
  std::vector<float> logits(kVocabulary);
  for (int id = 0; id < kVocabulary; ++id) logits[id] = std::sin(static_cast<float>(id)) * 10;
  sampling::SequenceSampler sampler(&spec, spec.tokens, spec.prompt_length);
  const uint32_t index = sampler.next_index();
  const std::vector<int32_t> banned = sampling::BannedIds(spec.end_rule, index);
  std::vector<float> scores;
  const auto selection = sampler.Select(logits, &scores);
  KV_CHECK(selection.ok(), "accepted parameters can be sampled with");
  KV_CHECK(InVocabulary({selection->token}), "the token is in the vocabulary");
  KV_CHECK(std::find(banned.begin(), banned.end(), selection->token) == banned.end(), "a banned token is not selected");
  KV_CHECK(spec.allowed_ids.empty() ||
               std::find(spec.allowed_ids.begin(), spec.allowed_ids.end(), selection->token) != spec.allowed_ids.end(),
           "what is not allowed is not selected");
  KV_CHECK(static_cast<int>(selection->top.size()) == spec.logprobs, "as many likely tokens as asked for");
  (void)sampling::EndsRequest(spec.end_rule, index + 1, selection->token);
}

void Run(Input input) {
  static auto& worker = *new Worker;
  worker::v1::GenerationSpec given;
  if (input.Below(2) == 0) {
    const std::string_view bytes = input.Rest();
    if (!given.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  } else {
    given = testing::MakeSpec(1 + input.Byte() * 8, 1 + input.Byte());
    while (!input.empty())
      if (!Spoil(input, given)) return;
  }
  const auto spec = worker::ParseSpec(given, worker.context);
  if (!spec.ok()) {
    KV_CHECK(absl::IsInvalidArgument(spec.status()), "a bad spec is the caller's fault");
    KV_CHECK(spec.status().message().size() < 400, "a peer does not choose the size of our messages");
    return;
  }
  CheckParsed(given, *spec);
  const auto session = worker.engine.Reserve(*spec);
  if (session.ok()) CheckReserved(**session, worker.engine.context_length());
  KV_CHECK(session.ok() || absl::IsInvalidArgument(session.status()) || absl::IsResourceExhausted(session.status()),
           "a bad spec is the caller's fault");
}

}  // namespace
}  // namespace kvrelay::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  google::protobuf::LogSilencer quiet;  // it logs each broken UTF-8
  kvrelay::fuzz::Run(kvrelay::fuzz::Input(data, size));
  return 0;
}
