// A file in memory that has a path.
#pragma once

#include "tests/fuzz/check.h"

#include <sys/mman.h>
#include <unistd.h>

#include <string>

namespace ddp {

class MemoryFile {
 public:
  MemoryFile() : file_(::memfd_create("fuzz", 0)), path_("/proc/self/fd/" + std::to_string(file_)) {
    check(file_ >= 0, "there are files in memory");
  }
  ~MemoryFile() { ::close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  const char* path() const { return path_.c_str(); }
  void assign(const std::string& text) {
    check(
        ::ftruncate(file_, 0) == 0 && ::pwrite(file_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()),
        "a file in memory can be written");
  }

 private:
  int file_;
  std::string path_;
};

}  // namespace ddp
