// Opens and reads regular files. What else a path may name is refused: a FIFO may never have a writer, and a device may
// never end.
#pragma once

#include <ext/stdio_filebuf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <istream>
#include <span>
#include <string>
#include <utility>

namespace ddp {

// Owns a file descriptor.
class OpenFile {
 public:
  explicit OpenFile(int file) : file_(file) {}  // may be -1
  OpenFile(OpenFile&& other) noexcept : file_(other.release()) {}
  ~OpenFile() {
    if (file_ >= 0) ::close(file_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int get() const { return file_; }
  int release() { return std::exchange(file_, -1); }  // the caller closes it

 private:
  int file_;
};

// What is not a regular file, for messages: "a folder", "a FIFO", "a socket" or "a device".
const char* kind_of_file(mode_t mode);

// Opens a regular file. Links are followed. Throws Error(Exit::data) with the path if the file is missing or cannot be
// opened, or with its kind if it is something else, which is not opened.
OpenFile open_for_reading(const std::filesystem::path& path);

// A regular file as a stream, which can be positioned. Throws as open_for_reading().
class FileStream : public std::istream {
 public:
  explicit FileStream(const std::filesystem::path& path)
      : std::istream(nullptr), buffer_(open_for_reading(path).release(), std::ios::in | std::ios::binary) {
    rdbuf(&buffer_);
  }

 private:
  __gnu_cxx::stdio_filebuf<char> buffer_;  // closes the file
};

// The size of an open file. Throws Error(Exit::data) with `name`.
int64_t size_of(const OpenFile& file, const std::string& name);

struct ReadResult {
  size_t bytes = 0;  // fewer than asked for at the end of the file, or after an error
  int error = 0;     // errno of a failed read; 0: none
};
// Fills `to` with the bytes of an open file from `offset` on.
ReadResult read_at(int file, size_t offset, std::span<uint8_t> to);

// The content of a regular file of at most `most` bytes. Throws as open_for_reading(), and Error(Exit::data) with the
// path if the file is larger, cannot be read, or becomes shorter meanwhile.
std::string read_whole_file(const std::filesystem::path& path, int64_t most);

}  // namespace ddp
