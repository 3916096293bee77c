// A grammar for tests: every third id of a text, from the second on, is odd, the others are even: a function of how
// many tokens it has.
#pragma once

#include <memory>

#include "common/sampling/output_grammar.h"

namespace kvrelay::sampling {

class ParityGrammar final : public OutputGrammar {
 public:
  absl::StatusOr<std::unique_ptr<OutputGrammar>> Copy() const override {
    return std::make_unique<ParityGrammar>(*this);
  }
  absl::Status Mask(absl::Span<uint32_t> words) override {
    for (uint32_t& word : words) word = IsOdd() ? 0xaaaaaaaa : 0x55555555;
    return absl::OkStatus();
  }
  absl::Status Accept(int32_t token) override {
    if ((token % 2 != 0) != IsOdd()) return absl::InvalidArgumentError("of the wrong parity");
    ++accepted_;
    return absl::OkStatus();
  }

 private:
  bool IsOdd() const { return accepted_ % 3 == 1; }
  int accepted_ = 0;
};

}  // namespace kvrelay::sampling
