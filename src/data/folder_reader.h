// Reads files below one folder. Thread-safe. Errors are Error(Exit::data) with the path and what to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace ddp {

class FolderReader {
 public:
  static constexpr int64_t kMostBytes = int64_t{1} << 30;  // of a file

  explicit FolderReader(std::filesystem::path root);
  ~FolderReader();
  FolderReader(const FolderReader&) = delete;
  FolderReader& operator=(const FolderReader&) = delete;

  struct Expected {  // what the list of the files says
    int64_t bytes = 0, mtime_ns = 0;
  };
  // Replaces `content` by that of the file. Links are followed. Refuses everything but regular files, without waiting
  // for a FIFO's writer. Reads a second time after EIO or ESTALE. Throws if the file is missing, cannot be read, or is
  // not the expected one: it has changed since the data were listed.
  void read(std::string_view path, const Expected& expected, std::vector<uint8_t>& content) const {
    read_part(path, expected, 0, static_cast<size_t>(expected.bytes), content);
  }
  // The same for the `bytes` bytes of the file from `offset` on, or those of them that the file has.
  void read_part(std::string_view path, const Expected& expected, size_t offset, size_t bytes,
                 std::vector<uint8_t>& content) const;

  // Asks the system to load the file into its cache. Ignores errors: read() reports them.
  void announce(std::string_view path) const;

  std::filesystem::path full(std::string_view path) const { return root_ / path; }

 private:
  std::filesystem::path root_;
  int folder_ = -1;
};

}  // namespace ddp
