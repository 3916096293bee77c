#include "common/model_file/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace kvrelay::model_file {

absl::StatusOr<OpenFile> OpenFile::Open(const std::string& path, const std::string& name) {
  // Not blocking, so that a pipe under this name is refused instead of waited for.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open model file ", path));
  OpenFile file(name, fd);
  struct stat status;
  if (fstat(fd, &status) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot examine model file ", path));
  if (!S_ISREG(status.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  file.bytes_ = static_cast<uint64_t>(status.st_size);
  return file;
}

OpenFile::~OpenFile() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace kvrelay::model_file
