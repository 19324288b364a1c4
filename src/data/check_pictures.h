// Looks at all pictures of a list before the first step: headers only, or every byte. automatic: full if broken
// pictures are left out, else headers.
#pragma once

#include "data/folder_reader.h"
#include "data/picture_facts.h"
#include "data/picture_list.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace ddp {

enum class CheckData : uint8_t { automatic, headers, full, none };

struct CheckScope {
  const std::vector<int64_t>* only = nullptr;  // these positions of the list; null: all
  bool unreadable_is_broken = false;           // a file that cannot be read, or has changed, counts as a broken picture
};

// Checks every `parts`-th picture of `list`, or of scope.only, from `part` on, with `workers` threads. Calls `progress`
// from time to time, in the caller's thread, with the number of pictures checked so far. A picture is broken if its
// bytes are; without `unreadable_is_broken` another error ends the check: Error(Exit::data) for a file that cannot be
// read or has changed. So does Error(Exit::usage) for a picture that needs more than `limit_bytes` of memory in a
// thread.
PictureFacts check_pictures(const PictureList& list, const FolderReader& files, CheckData how, bool exif, int part,
                            int parts, int workers, int64_t limit_bytes,
                            const std::function<void(int64_t)>& progress = {}, const CheckScope& scope = {});

}  // namespace ddp
