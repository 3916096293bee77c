// Reads a fuzzer's bytes as a sequence of small decisions. Past the end everything is 0, so that every input means
// something and a short one stays short.
//
// Not thread-safe. The bytes must outlive it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvrelay::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  // 0 to 255.
  uint32_t Byte() { return static_cast<uint8_t>(Bytes(1).empty() ? 0 : last_.front()); }
  // 0 to count - 1. REQUIRES: 1 <= count <= 256.
  uint32_t Below(uint32_t count) { return Byte() % count; }
  // Little endian.
  uint32_t Number() {
    uint32_t value = 0;
    for (int shift = 0; shift < 32; shift += 8) value |= Byte() << shift;
    return value;
  }
  // The next `size` bytes, or what is left.
  std::string_view Bytes(size_t size) {
    last_ = rest_.substr(0, size);
    rest_.remove_prefix(last_.size());
    return last_;
  }
  std::string_view Rest() { return Bytes(rest_.size()); }

 private:
  std::string_view rest_, last_;
};

// The text up to `mark`, which is dropped; all of it if there is none. `text` becomes what follows.
inline std::string_view TakeUntil(std::string_view mark, std::string_view& text) {
  const std::string_view part = text.substr(0, text.find(mark));
  text.remove_prefix(std::min(text.size(), part.size() + mark.size()));
  return part;
}

}  // namespace kvrelay::fuzz
