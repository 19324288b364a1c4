// The training and validation pictures of a data set.
#pragma once

#include "data/picture_list.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace ddp {

struct PictureLists {
  PictureList train, val;          // have the same classes; without validation data, `val` has no files
  std::vector<std::string> notes;  // what the user should know, a line each; a probable mistake starts with "warning: "

  // Both lists as one block, for another process of the host. The notes stay behind.
  std::vector<std::byte> block() const;
  // Uses the block without a copy. Throws Error(Exit::internal) if it is not a whole, valid block.
  static PictureLists from_block(const std::shared_ptr<const std::byte[]>& bytes, size_t size);
};

}  // namespace ddp
