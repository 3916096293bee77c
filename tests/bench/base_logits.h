// The reference of a quality measurement: the file that `llama-perplexity --kl-divergence-base` writes, so that both
// programs score the same windows of tokens against the same distributions.
//
// Format, little endian: "_logits_", u32 window, i32 vocabulary, i32 windows, i32 tokens [windows][window]; then for
// each window and each scored position window / 2 .. window - 2: f32 scale, f32 minimum, u16 [vocabulary, rounded up to
// even]; log-probability = scale * u16 + minimum.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace kvrelay::bench {

class BaseLogits {
 public:
  static absl::StatusOr<BaseLogits> Open(const std::string& path);

  int window() const { return window_; }
  int vocabulary() const { return vocabulary_; }
  int windows() const { return windows_; }
  int first_scored() const { return window_ / 2; }
  int scored() const { return window_ - 1 - window_ / 2; }  // per window
  absl::Span<const int32_t> Tokens(int window) const;

  // Log-probabilities [vocabulary] of scored position `index` of a window.
  absl::Status Read(int window, int index, absl::Span<float> log_probabilities);

 private:
  BaseLogits() = default;
  std::ifstream file_;
  std::streamoff data_begin_ = 0;
  int window_ = 0, vocabulary_ = 0, windows_ = 0;
  std::vector<int32_t> tokens_;
  std::vector<uint16_t> record_;
};

}  // namespace kvrelay::bench
