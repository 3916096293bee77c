#include "common/worker/grammars.h"

#include <algorithm>

#include "common/base/status_macros.h"

namespace kvrelay::worker {
namespace {

constexpr size_t kCompiledMax = 16;

// As the engine wants it: text knows nothing of sampling.
class TextGrammar final : public sampling::OutputGrammar {
 public:
  explicit TextGrammar(std::unique_ptr<text::Grammar> grammar) : grammar_(std::move(grammar)) {}
  absl::StatusOr<std::unique_ptr<OutputGrammar>> Copy() const override {
    KV_ASSIGN_OR_RETURN(std::unique_ptr<text::Grammar> copy, grammar_->Copy());
    return std::make_unique<TextGrammar>(std::move(copy));
  }
  absl::Status Mask(absl::Span<uint32_t> words) override { return grammar_->Mask(words); }
  absl::Status Accept(int32_t token) override { return grammar_->Accept(token); }

 private:
  const std::unique_ptr<text::Grammar> grammar_;
};

}  // namespace

absl::StatusOr<GrammarCache::Compiled> GrammarCache::Find(text::GrammarLanguage language, const std::string& source) {
  {
    std::lock_guard lock(mutex_);
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return entry.language == language && entry.source == source;
    });
    if (found != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, found);
      return found->compiled;
    }
  }
  KV_ASSIGN_OR_RETURN(Compiled compiled, grammars_->Compile(language, source));
  std::lock_guard lock(mutex_);
  entries_.push_front({language, source, compiled});
  if (entries_.size() > kCompiledMax) entries_.pop_back();
  return compiled;
}

absl::StatusOr<std::shared_ptr<const sampling::OutputGrammar>> GrammarCache::Get(text::GrammarLanguage language,
                                                                                 const std::string& source,
                                                                                 absl::Span<const int32_t> history) {
  KV_ASSIGN_OR_RETURN(const Compiled compiled, Find(language, source));
  KV_ASSIGN_OR_RETURN(std::unique_ptr<text::Grammar> grammar, compiled->Copy());
  for (const int32_t token : history) KV_RETURN_IF_ERROR(grammar->Accept(token));
  return std::make_shared<const TextGrammar>(std::move(grammar));
}

}  // namespace kvrelay::worker
