// The files of a set of pictures, in the order of the samples: path, label, size and time of change. The list is one
// flat block of bytes without pointers, so that the processes of a host can share it. Besides the paths it takes 32
// bytes a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

// A view of a block. Copies share the block; reading is thread-safe.
class PictureList {
 public:
  PictureList() = default;  // no files, no classes

  // Uses the block, which `owner` keeps in memory. The block must not change, and starts at a multiple of 8 bytes.
  // Throws Error(Exit::internal) if it is not a whole, valid list: every offset, label and text is checked.
  static PictureList from_block(std::shared_ptr<const void> owner, std::span<const std::byte> block);

  int64_t size() const { return files_; }
  int classes() const { return static_cast<int>(classes_); }

  // For 0 <= i < size().
  std::string_view path(int64_t i) const;  // relative to the root; ends in a zero byte
  int32_t label(int64_t i) const;          // 0 <= label < classes()
  int64_t bytes(int64_t i) const;          // size of the file
  int64_t mtime_ns(int64_t i) const;       // time of the last change, since 1970

  std::string_view class_name(int i) const;                    // 0 <= i < classes()
  std::span<const std::byte> block() const { return block_; }  // empty for a list made by PictureList()

  // Of paths, sizes, labels and class names, in their order. The root and the times do not count: a copy of the data
  // elsewhere has the same hash. `earlier`: sizes by position that count instead.
  uint64_t hash(const std::map<int64_t, int64_t>& earlier = {}) const;

 private:
  friend class PictureListBuilder;
  struct File;
  PictureList(std::shared_ptr<const void> owner, std::span<const std::byte> block);
  std::string_view text(uint64_t begin, uint64_t end) const;
  const File& file(int64_t i) const;
  std::string_view check() const;

  std::shared_ptr<const void> owner_;
  std::span<const std::byte> block_;
  int64_t files_ = 0, classes_ = 0;
  const File* file_ = nullptr;
  const uint64_t* class_end_ = nullptr;
  const char* texts_ = nullptr;
};

// Makes a list file by file.
class PictureListBuilder {
 public:
  // Names are unique and not empty.
  explicit PictureListBuilder(std::vector<std::string> class_names);
  ~PictureListBuilder();
  PictureListBuilder(const PictureListBuilder&) = delete;
  PictureListBuilder& operator=(const PictureListBuilder&) = delete;

  // `path`: relative, without a component `..`. Throws Error(Exit::data) at the first file above 2^31 - 1.
  void add(std::string_view path, int32_t label, int64_t bytes, int64_t mtime_ns);
  PictureList finish() &&;

 private:
  std::vector<std::string> class_names_;
  std::vector<PictureList::File> files_;
  std::string texts_;
};

}  // namespace ddp
