// The pictures of one part of the data that a run excludes because it could not read them. They stay in the plan of the
// epochs: each keeps its place in a batch, with no weight. For the thread that takes the batches.
#pragma once

#include "core/broken_picture.h"
#include "data/picture_list.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ddp {

// Whether the data must be gone: more than 1 % of the pictures, and more than 10, have broken in one process.
bool are_gone(int64_t broken, int64_t pictures);

// Pictures of a part over the whole run, so that the state in a checkpoint stays small.
inline constexpr int64_t kMostExcluded = 20'000;

class Exclusions {
 public:
  // `known`: on all ranks, in any order. Throws Error(Exit::data) for a picture that `list` does not have.
  explicit Exclusions(PictureList list, const std::vector<BrokenPicture>& known = {});
  // For a data set of tokens: each of its `windows` windows counts as a picture.
  explicit Exclusions(int64_t windows) : pictures_(windows) {}

  bool empty() const { return known_.empty() && found_.empty(); }
  bool contains(int64_t picture) const;
  const std::vector<BrokenPicture>& known() const { return known_; }  // to all ranks; ascending by picture
  int64_t pictures() const { return pictures_; }
  bool are_pictures() const { return list_.size() == pictures_; }

  // This rank could not read the picture for `step`. It is excluded here from now on, and on the other ranks when they
  // know it.
  void found(int64_t picture, int64_t step, const std::string& reason);
  const std::vector<BrokenPicture>& found() const { return found_; }

  // All ranks know these pictures now, this rank's found() among them. Returns those that are new, ascending.
  std::vector<BrokenPicture> agree(std::vector<BrokenPicture> pictures);

 private:
  int64_t pictures_ = 0;
  PictureList list_;  // empty of windows
  std::vector<BrokenPicture> known_, found_;
};

}  // namespace ddp
