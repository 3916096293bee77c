// An open regular file, closed with the object. Movable; thread-safe once open.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace kvrelay::model_file {

class OpenFile {
 public:
  // `name` is what messages and digests call it. The status of errno if it cannot be opened, INVALID_ARGUMENT if it is
  // no regular file.
  static absl::StatusOr<OpenFile> Open(const std::string& path, const std::string& name);
  OpenFile(OpenFile&& other) noexcept
      : name_(std::move(other.name_)), fd_(std::exchange(other.fd_, -1)), bytes_(other.bytes_) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(name_, other.name_);
    std::swap(fd_, other.fd_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~OpenFile();

  const std::string& name() const { return name_; }
  int fd() const { return fd_; }
  uint64_t bytes() const { return bytes_; }  // when it was opened

 private:
  OpenFile(std::string name, int fd) : name_(std::move(name)), fd_(fd) {}

  std::string name_;
  int fd_;
  uint64_t bytes_ = 0;
};

}  // namespace kvrelay::model_file
