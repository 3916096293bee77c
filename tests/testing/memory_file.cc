#include "tests/testing/memory_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include "common/base/check.h"

namespace kvrelay::testing {

MemoryFile::MemoryFile(std::string_view bytes) : fd_(memfd_create("kvrelay-test", MFD_CLOEXEC)) {
  KV_CHECK(fd_ >= 0, "the kernel gives memory files");
  path_ = "/proc/self/fd/" + std::to_string(fd_);
  Rewrite(bytes);
}

MemoryFile::~MemoryFile() { close(fd_); }

void MemoryFile::Rewrite(std::string_view bytes) {
  KV_CHECK(ftruncate(fd_, 0) == 0, "a memory file can be cut");
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t wrote = pwrite(fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    KV_CHECK(wrote > 0, "a memory file takes what it is given");
    done += wrote;
  }
}

}  // namespace kvrelay::testing
