// Linked into tests that run under ThreadSanitizer only. The system's Abseil is not instrumented, so TSan does not see
// that absl::Mutex orders anything and reports a race for all that it guards. These definitions stand before the
// library's, call them, and tell TSan what they order.
#include <dlfcn.h>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  static const auto real = reinterpret_cast<void (*)(Mutex*)>(dlsym(RTLD_NEXT, "_ZN4absl7debian35Mutex4LockEv"));
  real(this);
  __tsan_acquire(this);
}

void Mutex::Unlock() {
  static const auto real = reinterpret_cast<void (*)(Mutex*)>(dlsym(RTLD_NEXT, "_ZN4absl7debian35Mutex6UnlockEv"));
  __tsan_release(this);
  real(this);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  static const auto real = reinterpret_cast<bool (*)(Mutex*, const Condition&, Duration)>(
      dlsym(RTLD_NEXT, "_ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE"));
  __tsan_release(this);
  const bool result = real(this, condition, timeout);
  __tsan_acquire(this);
  return result;
}

ABSL_NAMESPACE_END
}  // namespace absl
