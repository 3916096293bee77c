#include "common/tensor/huge_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"

namespace kvrelay {
namespace {

size_t FileNumber(const char* path, size_t otherwise) {
  size_t value;
  return (std::ifstream(path) >> value) ? value : otherwise;
}

// What the cgroup (v2, then v1) still grants; no limit reads as a huge number or as the word "max".
size_t CgroupFree() {
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  size_t limit = FileNumber("/sys/fs/cgroup/memory.max", kNone);
  size_t used = FileNumber("/sys/fs/cgroup/memory.current", 0);
  if (limit == kNone) {
    limit = FileNumber("/sys/fs/cgroup/memory/memory.limit_in_bytes", kNone);
    used = FileNumber("/sys/fs/cgroup/memory/memory.usage_in_bytes", 0);
  }
  // The usage counts page cache, which yields under pressure, so only a request above the whole limit is hopeless.
  return limit == kNone ? kNone : std::max(limit - std::min(limit, used), limit / 2);
}

size_t MachineFree() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  size_t kib;
  while (file >> key >> kib >> unit)
    if (key == "MemAvailable:") return kib << 10;
  return std::numeric_limits<size_t>::max();
}

}  // namespace

absl::StatusOr<HugeBuffer> HugeBuffer::Allocate(size_t bytes) {
  const size_t free = std::min(MachineFree(), CgroupFree());
  if (bytes > free)
    return absl::ResourceExhaustedError(
        absl::StrCat("need ", bytes >> 20, " MiB of memory, ", free >> 20, " MiB are free"));
  HugeBuffer buffer;
  if (bytes == 0) return buffer;
  const size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  // One alignment more than needed; the ends that stick out are given back.
  void* mapped =
      mmap(nullptr, size + kAlignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return absl::ResourceExhaustedError(absl::StrCat("cannot map ", size >> 20, " MiB"));
  auto* start = static_cast<std::byte*>(mapped);
  const size_t head = (kAlignment - reinterpret_cast<uintptr_t>(start) % kAlignment) % kAlignment;
  if (head > 0) munmap(start, head);
  munmap(start + head + size, kAlignment - head);
  madvise(start + head, size, MADV_HUGEPAGE);
  buffer.data_ = start + head;
  buffer.size_ = size;
  return buffer;
}

HugeBuffer& HugeBuffer::operator=(HugeBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

HugeBuffer::~HugeBuffer() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace kvrelay
