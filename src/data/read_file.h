// Opens and reads files.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace ddp {

// Owns a file descriptor.
class OpenFile {
 public:
  explicit OpenFile(int file) : file_(file) {}  // may be -1
  ~OpenFile() {
    if (file_ >= 0) ::close(file_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int get() const { return file_; }

 private:
  int file_;
};

struct ReadResult {
  size_t bytes = 0;  // fewer than asked for at the end of the file, or after an error
  int error = 0;     // errno of a failed read; 0: none
};
// Fills `to` with the bytes of an open file from `offset` on.
ReadResult read_at(int file, size_t offset, std::span<uint8_t> to);

// The content of a regular file of at most `most` bytes. Links are followed. Throws Error(Exit::data) with the path if
// the file is missing, is larger, cannot be read, becomes shorter meanwhile, or is something else: a FIFO, for
// instance, which is not opened.
std::string read_whole_file(const std::filesystem::path& path, int64_t most);

}  // namespace ddp
