#include "common/model_file/byte_reader.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace kvrelay::model_file {
namespace {

constexpr uint64_t kBufferBytes = 256 << 10;

}  // namespace

absl::Status ReadFully(int fd, void* out, uint64_t bytes, uint64_t offset) {
  auto* to = static_cast<std::byte*>(out);
  while (bytes > 0) {
    const ssize_t got = pread(fd, to, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::DataLossError(absl::StrCat("cannot read at byte ", offset, ": ", strerror(errno)));
    if (got == 0)
      return absl::DataLossError(absl::StrCat("the file became shorter while in use: nothing at byte ", offset));
    to += got;
    bytes -= got;
    offset += got;
  }
  return absl::OkStatus();
}

absl::Status ByteReader::Fill() {
  const uint64_t bytes = std::min(kBufferBytes, remaining());
  buffer_.resize(bytes);
  buffer_start_ = position_;
  return ReadFully(fd_, buffer_.data(), bytes, position_);
}

absl::Status ByteReader::Read(void* out, uint64_t bytes) {
  if (bytes > remaining()) {
    return absl::InvalidArgumentError(
        absl::StrCat("truncated: ", bytes, " bytes wanted at byte ", position_, ", only ", remaining(), " left"));
  }
  auto* to = static_cast<std::byte*>(out);
  while (bytes > 0) {
    const uint64_t consumed = position_ - buffer_start_;
    if (consumed == buffer_.size()) {
      KV_RETURN_IF_ERROR(Fill());
      continue;
    }
    const uint64_t part = std::min<uint64_t>(bytes, buffer_.size() - consumed);
    std::memcpy(to, buffer_.data() + consumed, part);
    to += part;
    bytes -= part;
    position_ += part;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ByteReader::ReadString(uint64_t max_bytes) {
  KV_ASSIGN_OR_RETURN(const uint64_t length, ReadNumber<uint64_t>());
  if (length > remaining()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a string claims ", length, " bytes at byte ", position_, ", only ", remaining(), " are left"));
  }
  if (length > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a string of ", length, " bytes at byte ", position_, " exceeds its limit of ", max_bytes));
  }
  std::string text(length, '\0');
  KV_RETURN_IF_ERROR(Read(text.data(), length));
  return text;
}

}  // namespace kvrelay::model_file
