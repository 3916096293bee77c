#include "router/random_bytes.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "common/base/check.h"

namespace kvrelay::router {

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  size_t filled = 0;
  while (filled < count) {
    const ssize_t got = getrandom(bytes.data() + filled, count - filled, 0);
    KV_CHECK(got > 0 || errno == EINTR, "the operating system gives random bytes");
    if (got > 0) filled += static_cast<size_t>(got);
  }
  return bytes;
}

uint64_t RandomSeed() {
  uint64_t seed;
  std::memcpy(&seed, RandomBytes(sizeof(seed)).data(), sizeof(seed));
  return seed;
}

}  // namespace kvrelay::router
