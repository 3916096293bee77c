// Reads the head of a file in order, never past a limit. Every length that the file claims is compared with what is
// left before anything of that size is allocated.
//
// Not thread-safe. Does not own the file descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kvrelay::model_file {

class ByteReader {
 public:
  // Bytes [0, limit) of `fd`. REQUIRES: limit is at most the file's size.
  ByteReader(int fd, uint64_t limit) : fd_(fd), limit_(limit) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return limit_ - position_; }

  // INVALID_ARGUMENT if fewer than `bytes` are left, DATA_LOSS if the disk fails or the file shrank meanwhile.
  absl::Status Read(void* out, uint64_t bytes);
  // A fixed-size number, little-endian.
  template <typename T>
  absl::StatusOr<T> ReadNumber() {
    T value;
    if (absl::Status status = Read(&value, sizeof(value)); !status.ok()) return status;
    return value;
  }
  // A u64 length, then that many bytes. INVALID_ARGUMENT if longer than `max_bytes` or than what is left.
  absl::StatusOr<std::string> ReadString(uint64_t max_bytes);

 private:
  absl::Status Fill();

  const int fd_;
  const uint64_t limit_;
  uint64_t position_ = 0;
  std::vector<std::byte> buffer_;  // file bytes [buffer_start_, buffer_start_ + buffer_.size())
  uint64_t buffer_start_ = 0;
};

// Reads exactly `bytes` at `offset`. DATA_LOSS if the disk fails or the file ends before.
absl::Status ReadFully(int fd, void* out, uint64_t bytes, uint64_t offset);

}  // namespace kvrelay::model_file
