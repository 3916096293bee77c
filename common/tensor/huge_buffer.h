// Anonymous memory on 2 MiB pages, zeroed. Decode reads all weights once per token; on 4 KiB pages a core reads about
// half as fast as on 2 MiB pages, so weights and KV live here.
//
// A HugeBuffer owns its memory and can be moved. Not thread-safe beyond what plain memory is.
#pragma once

#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"

namespace kvrelay {

class HugeBuffer {
 public:
  static constexpr size_t kAlignment = size_t{2} << 20;

  // RESOURCE_EXHAUSTED with both figures if `bytes` exceed the memory that the machine (or its cgroup) has free.
  static absl::StatusOr<HugeBuffer> Allocate(size_t bytes);

  HugeBuffer() = default;
  HugeBuffer(HugeBuffer&& other) noexcept { *this = std::move(other); }
  HugeBuffer& operator=(HugeBuffer&& other) noexcept;
  ~HugeBuffer();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace kvrelay
