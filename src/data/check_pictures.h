// Looks at all pictures of a list before the first step: headers only, or every byte.
#pragma once

#include "data/folder_reader.h"
#include "data/picture_facts.h"
#include "data/picture_list.h"

#include <cstdint>
#include <functional>

namespace ddp {

enum class CheckData : uint8_t { headers, full, none };

// Checks every `parts`-th picture of `list` from `part` on, with `workers` threads. Calls `progress` from time to time,
// in the caller's thread, with the number of pictures checked so far. A picture is broken if its bytes are; another
// error ends the check: Error(Exit::data) for a file that cannot be read or has changed, Error(Exit::usage) for a
// picture that needs more than `limit_bytes` of memory in a thread.
PictureFacts check_pictures(const PictureList& list, const FolderReader& files, CheckData how, bool exif, int part,
                            int parts, int workers, int64_t limit_bytes,
                            const std::function<void(int64_t)>& progress = {});

}  // namespace ddp
