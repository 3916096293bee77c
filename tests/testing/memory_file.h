// A file that lives in memory and has a path, so that code which opens files can be tested thousands of times a second.
//
// Gone when destroyed; readers that have it open keep it. Not thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace kvrelay::testing {

class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  const std::string& path() const { return path_; }
  // Replaces the content, for those too who have the file open.
  void Rewrite(std::string_view bytes);

 private:
  int fd_;
  std::string path_;
};

}  // namespace kvrelay::testing
