// The training and validation pictures of a data set.
#pragma once

#include "data/picture_list.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ddp {

struct PictureLists {
  PictureList train, val;               // have the same classes; without validation data, `val` has no files
  std::vector<std::string> notes = {};  // what the user should know, a line each; a probable mistake: "warning: ..."
  std::string val_part = {};            // the folder of `val`; empty: the data have no such folder
  std::string meant = {};               // of a folder with one class: as probably_meant() in data/meant_folder.h

  // Both lists as one block, for another process of the host. Notes and names stay behind.
  std::vector<std::byte> block() const;
  // Uses the block without a copy. Throws Error(Exit::internal) if it is not a whole, valid block.
  static PictureLists from_block(const std::shared_ptr<const std::byte[]>& bytes, size_t size);
};

// What a rank of a host has listed.
struct ListedHost {
  std::string host;
  int64_t train = 0, val = 0;  // pictures
  uint64_t hash = 0;           // of both lists
};
// If not all have listed the same, a line for each different list, with its hosts: "\n  a, b and 3 more hosts: 50
// training and 10 validation pictures (list 0123456789abcdef)". Empty: no difference.
std::string difference_of_hosts(const std::vector<ListedHost>& hosts);

}  // namespace ddp
