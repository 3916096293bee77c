#include "cli/bench/workload.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace kvrelay::cli::bench {
namespace {

// Short words of which vocabularies have each as one token.
constexpr const char* kWords[] = {
    "the",   "of",   "and",  "to",     "in",    "is",   "that",  "it",   "was",  "for",   "on",    "are",   "with",
    "as",    "his",  "they", "at",     "be",    "this", "from",  "have", "or",   "by",    "one",   "had",   "not",
    "but",   "what", "all",  "were",   "when",  "we",   "there", "can",  "an",   "your",  "which", "their", "said",
    "if",    "do",   "will", "each",   "about", "how",  "up",    "out",  "them", "then",  "she",   "many",  "some",
    "these", "so",   "her",  "would",  "make",  "like", "into",  "him",  "has",  "time",  "look",  "two",   "more",
    "write", "go",   "see",  "other",  "no",    "way",  "could", "my",   "than", "first", "water", "been",  "who",
    "its",   "now",  "find", "long",   "down",  "day",  "did",   "get",  "come", "made",  "may",   "part",  "over",
    "new",   "take", "only", "little", "work",  "know", "place", "year", "live", "me",    "back",  "give",  "most"};

// Seeds of streams that have nothing to do with each other.
uint64_t StreamSeed(uint64_t seed, uint32_t stream) {
  std::seed_seq sequence = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), stream};
  uint32_t words[2];
  sequence.generate(std::begin(words), std::end(words));
  return uint64_t{words[0]} << 32 | words[1];
}

std::set<uint32_t> SpecialIds(const v1::GetModelResponse& model) {
  std::set<uint32_t> special(model.eos_token_ids().begin(), model.eos_token_ids().end());
  if (model.has_bos_token_id()) special.insert(model.bos_token_id());
  return special;
}

}  // namespace

// The mean of a log-normal distribution is exp(mu + sigma^2 / 2).
Lengths::Lengths(double mean, double sigma, uint32_t max, uint64_t seed)
    : random_(seed), distribution_(std::log(mean) - sigma * sigma / 2, sigma), max_(max) {}

uint32_t Lengths::Next() {
  return static_cast<uint32_t>(std::clamp(std::round(distribution_(random_)), 1.0, static_cast<double>(max_)));
}

absl::Status Workload::Check(const v1::GetModelResponse& model) {
  if (model.context_length() >= 2 && model.vocabulary_size() > 2 * SpecialIds(model).size()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the service describes a model with ", model.vocabulary_size(),
                                          " token ids and a context of ", model.context_length(), " tokens"));
}

Workload::Workload(WorkloadOptions options, const v1::GetModelResponse& model)
    : options_(std::move(options)),
      context_length_(model.context_length()),
      vocabulary_size_(model.vocabulary_size()),
      special_(SpecialIds(model)),
      arrivals_(options_.rate > 0 ? options_.rate : 1, StreamSeed(options_.seed, 0)),
      prompt_lengths_(options_.prompt_tokens, options_.prompt_sigma, context_length_ - 1, StreamSeed(options_.seed, 1)),
      output_lengths_(options_.output_tokens, options_.output_sigma, context_length_ - 1, StreamSeed(options_.seed, 2)),
      contents_(StreamSeed(options_.seed, 3)) {
  KV_CHECK(Check(model).ok(), "the caller has checked the model");
}

PlannedRequest Workload::Next() {
  PlannedRequest planned{.due = {}, .request = options_.base};
  if (options_.rate > 0) planned.due = arrivals_.Next();
  if (options_.items.empty()) {
    const uint32_t prompt = prompt_lengths_.Next();
    planned.request.set_max_tokens(std::min(output_lengths_.Next(), context_length_ - prompt));
    AddPrompt(prompt, &planned.request);
    return planned;
  }
  const kvrelay::bench::v1::Item& item = options_.items[next_item_++ % options_.items.size()];
  if (item.has_arrival_s()) planned.due = absl::Seconds(item.arrival_s());
  planned.request.set_max_tokens(item.max_tokens());
  if (item.has_prompt()) {
    planned.request.set_text(item.prompt());
  } else if (item.token_ids_size() > 0) {
    *planned.request.mutable_token_ids()->mutable_ids() = item.token_ids();
  } else {
    AddPrompt(item.prompt_tokens(), &planned.request);
  }
  return planned;
}

void Workload::AddPrompt(uint32_t tokens, v1::GenerateRequest* request) {
  if (options_.text) {
    std::uniform_int_distribution<size_t> word(0, std::size(kWords) - 1);
    std::string* text = request->mutable_text();
    for (uint32_t i = 0; i < tokens; ++i) text->append(i == 0 ? "" : " ").append(kWords[word(contents_)]);
    return;
  }
  std::uniform_int_distribution<uint32_t> any(0, vocabulary_size_ - 1);
  for (uint32_t i = 0; i < tokens; ++i) {
    uint32_t id = any(contents_);
    while (special_.contains(id)) id = any(contents_);
    request->mutable_token_ids()->add_ids(id);
  }
}

}  // namespace kvrelay::cli::bench
