// A file of events that grows during a run. If a write fails, it warns once, and training continues without the file.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

namespace ddp {

class GrowingFile {
 public:
  // Appends to an existing regular file. Throws Error(Exit::output).
  explicit GrowingFile(std::filesystem::path path);
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  void write(std::string_view content);  // buffered
  void flush();                          // to the disk's cache
  void close();  // ends a successful run; throws Error(Exit::output) where the file is not complete

 private:
  void give_up();

  const std::filesystem::path path_;
  std::FILE* file_;      // null: closed, or a write has failed
  std::string failure_;  // the reason of a failed write
};

}  // namespace ddp
