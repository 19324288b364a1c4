// Looks at all pictures of a list before the first step: headers only, or every byte.
#pragma once

#include "data/codec/picture.h"
#include "data/folder_reader.h"
#include "data/picture_list.h"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace ddp {

enum class CheckData : uint8_t { headers, full, none };

// What the checked pictures are. merge() combines the facts of several parts of a list, in any order.
struct PictureFacts {
  int64_t pictures = 0;                                             // that can be read
  int64_t grey = 0;                                                 // of these, with one channel
  PictureSize smallest = {INT64_MAX, INT64_MAX}, largest = {0, 0};  // each side by itself; upright
  std::vector<std::pair<int64_t, std::string>> broken;              // position in the list, reason; ascending
  std::vector<std::pair<uint64_t, int64_t>> content;                // full: hash of the file, position in the list

  bool one_size() const { return pictures > 0 && smallest == largest; }
  void merge(const PictureFacts& other);
};

// Checks every `parts`-th picture of `list` from `part` on, with `workers` threads. Calls `progress` from time to time,
// in the caller's thread, with the number of pictures checked so far. A picture is broken if its bytes are; another
// error ends the check: Error(Exit::data) for a file that cannot be read or has changed, Error(Exit::usage) for a
// picture that needs more than `limit_bytes` of memory in a thread.
PictureFacts check_pictures(const PictureList& list, const FolderReader& files, CheckData how, bool exif, int part,
                            int parts, int workers, int64_t limit_bytes,
                            const std::function<void(int64_t)>& progress = {});

}  // namespace ddp
