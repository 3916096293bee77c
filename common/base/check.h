// CHECK ends the process when one of our own promises is broken. It is never used on what a peer, a file or a client
// sent: that is an absl::Status.
#pragma once

namespace kvrelay::internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition, const char* detail);
}  // namespace kvrelay::internal

// CHECK(condition, "what it means"): always compiled in.
#define KV_CHECK(condition, detail)                                             \
  do {                                                                          \
    if (!(condition)) [[unlikely]]                                              \
      ::kvrelay::internal::CheckFailed(__FILE__, __LINE__, #condition, detail); \
  } while (false)
