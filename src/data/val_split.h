// Chooses validation data from the training data. A file is chosen by (seed, class name, path) alone: it stays where it
// is when other files come or go, at any world size.
#pragma once

#include "data/picture_lists.h"

#include <cstdint>
#include <string_view>

namespace ddp {

// A number that depends on (seed, class name, path), uniform over all 64-bit numbers: KeyedHash of the class name and
// the path, as they are in the list.
uint64_t val_split_key(uint64_t seed, std::string_view class_name, std::string_view path);

// Moves each file with key / 2^64 < fraction from lists.train to lists.val, which has no files. Both keep the order. A
// class of n files gives about n * fraction of them, not exactly: an exact count would move other files when one is
// added. One file of each class remains for training even if all are chosen: the one with the greatest key.
// Throws Error(Exit::usage) unless 0 <= fraction < 1.
void split_validation(PictureLists& lists, double fraction, uint64_t seed);

}  // namespace ddp
