// The grammars of requests on a worker: compiled once for many requests of the same.
//
// Thread-safe.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/sampling/output_grammar.h"
#include "common/text/grammar.h"

namespace kvrelay::worker {

class GrammarCache {
 public:
  explicit GrammarCache(std::unique_ptr<text::Grammars> grammars) : grammars_(std::move(grammars)) {}

  // The grammar as it stands behind `history`. Errors of text::Grammars::Compile; INVALID_ARGUMENT if the history does
  // not fit it.
  absl::StatusOr<std::shared_ptr<const sampling::OutputGrammar>> Get(text::GrammarLanguage language,
                                                                     const std::string& source,
                                                                     absl::Span<const int32_t> history);

 private:
  using Compiled = std::shared_ptr<const text::Grammar>;
  struct Entry {
    text::GrammarLanguage language;
    std::string source;
    Compiled compiled;
  };
  absl::StatusOr<Compiled> Find(text::GrammarLanguage language, const std::string& source);

  const std::unique_ptr<text::Grammars> grammars_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // used last first; guarded by mutex_
};

}  // namespace kvrelay::worker
