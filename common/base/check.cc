#include "common/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace kvrelay::internal {

void CheckFailed(const char* file, int line, const char* condition, const char* detail) {
  std::fprintf(stderr, "%s:%d: broken promise: %s (%s)\n", file, line, condition, detail);
  std::fflush(stderr);
  std::abort();
}

}  // namespace kvrelay::internal
