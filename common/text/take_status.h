// How calls of the Rust library say that they failed.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/text/rust/kvrelay_text.h"

namespace kvrelay::text {

// The status of a call that returned `code`. Takes over `error`, which is filled only if the call failed.
inline absl::Status TakeStatus(int32_t code, const kvr_bytes& error) {
  if (code == 0) return absl::OkStatus();
  const std::string message(reinterpret_cast<const char*>(error.data), error.size);
  kvr_bytes_free(error);
  return absl::Status(static_cast<absl::StatusCode>(code), message);
}

}  // namespace kvrelay::text
