// What a check has found in a list of pictures, and its form for other ranks.
#pragma once

#include "data/geometry.h"
#include "data/kept_check.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddp {

struct PictureFacts {
  using Pairs = std::vector<std::pair<uint64_t, int64_t>>;  // the second number is a position in a list

  int64_t pictures = 0;                                             // that can be read
  int64_t grey = 0, animated = 0;                                   // of these, with one channel; with several frames
  PictureSize smallest = {INT64_MAX, INT64_MAX}, largest = {0, 0};  // each side by itself; upright
  std::vector<std::pair<int64_t, std::string>> broken = {};         // position in the list, reason; ascending
  Pairs content = {};                                               // full: hash of the file, position; ascending
  std::vector<CheckedPicture> checked = {};                         // full: by position, in any order

  // One picture; its id is its position. `full`: its content counts too.
  void add(const CheckedPicture& picture, bool full);

  bool one_size() const { return pictures > 0 && smallest == largest; }
  // Combines the facts of several parts of a list, in any order.
  void merge(const PictureFacts& other);

  // All facts but content and checked, as bytes: 5 for each broken picture and, for the first `reasons` of them, up to
  // 200 of its reason; the other reasons become empty. unpack() reads the bytes of a process of the same program.
  std::string pack(size_t reasons) const;
  static PictureFacts unpack(std::string_view bytes);
};

// Pairs as 12 bytes each, and the reverse.
std::string pack_pairs(const PictureFacts::Pairs& pairs);
PictureFacts::Pairs unpack_pairs(std::string_view bytes);

// The pictures of the content `a` that `b` has too: position of each, and that of the first such picture of `b`.
// Ascending.
PictureFacts::Pairs equal_content(const PictureFacts::Pairs& a, const PictureFacts::Pairs& b);

}  // namespace ddp
