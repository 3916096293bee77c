#include "tests/bench/base_logits.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kvrelay::bench {
namespace {

constexpr char kMagic[] = "_logits_";
constexpr size_t kMagicBytes = 8;
constexpr size_t kScaleWords = 4;  // two f32 in front of a record's values
constexpr int kMaxWindow = 1 << 16, kMaxVocabulary = 1 << 20, kMaxWindows = 1 << 16;

template <typename T>
bool ReadInto(std::ifstream& file, T* to, size_t count = 1) {
  return static_cast<bool>(file.read(reinterpret_cast<char*>(to), static_cast<std::streamsize>(count * sizeof(T))));
}

}  // namespace

absl::StatusOr<BaseLogits> BaseLogits::Open(const std::string& path) {
  BaseLogits base;
  base.file_.open(path, std::ios::binary);
  const auto bad = [&](const char* what) { return absl::InvalidArgumentError(absl::StrCat(path, ": ", what)); };
  if (!base.file_) return absl::NotFoundError(absl::StrCat(path, ": cannot be opened"));
  char magic[kMagicBytes];
  if (!ReadInto(base.file_, magic, kMagicBytes) || std::memcmp(magic, kMagic, kMagicBytes) != 0) {
    return bad("not a file of base log-probabilities");
  }
  if (!ReadInto(base.file_, &base.window_) || !ReadInto(base.file_, &base.vocabulary_) ||
      !ReadInto(base.file_, &base.windows_)) {
    return bad("ends within its header");
  }
  if (base.window_ < 4 || base.window_ > kMaxWindow || base.vocabulary_ < 1 || base.vocabulary_ > kMaxVocabulary ||
      base.windows_ < 1 || base.windows_ > kMaxWindows) {
    return bad("sizes out of range");
  }
  base.tokens_.resize(size_t(base.window_) * base.windows_);
  if (!ReadInto(base.file_, base.tokens_.data(), base.tokens_.size())) return bad("ends within its tokens");
  base.data_begin_ = base.file_.tellg();
  base.record_.resize(kScaleWords + (size_t(base.vocabulary_) + 1) / 2 * 2);
  return base;
}

absl::Span<const int32_t> BaseLogits::Tokens(int window) const {
  return absl::MakeConstSpan(tokens_).subspan(size_t(window) * window_, window_);
}

absl::Status BaseLogits::Read(int window, int index, absl::Span<float> log_probabilities) {
  const auto record = static_cast<std::streamoff>(size_t(window) * scored() + index);
  file_.seekg(data_begin_ + record * static_cast<std::streamoff>(record_.size() * sizeof(uint16_t)));
  if (!ReadInto(file_, record_.data(), record_.size())) return absl::DataLossError("the base file ends too early");
  float scale, minimum;
  std::memcpy(&scale, record_.data(), sizeof scale);
  std::memcpy(&minimum, record_.data() + 2, sizeof minimum);
  for (int i = 0; i < vocabulary_; ++i) log_probabilities[i] = scale * record_[kScaleWords + i] + minimum;
  return absl::OkStatus();
}

}  // namespace kvrelay::bench
