// A file of events that grows during a run. If a write fails, it warns once, and training continues without the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace ddp {

class GrowingFile {
 public:
  static constexpr size_t kBuffer = 32 << 10;

  // Appends to an existing regular file. Throws Error(Exit::output).
  explicit GrowingFile(std::filesystem::path path);
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  // Appends a record to a buffer of kBuffer bytes. The kernel gets whole records only, unless the disk is full. It
  // shows an append to readers page by page, so a reader may see the end of a page of 4096 bytes as the end of the
  // file.
  void write(std::string_view record);
  int64_t size() const { return size_; }  // of the file, with the buffer
  void flush();                           // to the disk's cache
  void close();  // ends a successful run; throws Error(Exit::output) where the file is not complete

 private:
  bool write_buffer();  // false: it has failed
  void give_up();

  const std::filesystem::path path_;
  int file_;  // -1: closed, or a write has failed
  int64_t size_;
  std::string buffer_;
  std::string failure_;  // the reason of a failed write
};

}  // namespace ddp
