// A picture that could not be read although the check at the start of the run had found it good, or had not read it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace ddp {

struct BrokenPicture {
  int64_t picture = 0;      // position in the list of its part of the data
  int64_t bytes = 0;        // of its file, when the run listed its data
  int64_t step = 0;         // it is excluded from this step of the run on, from 1
  std::string reason = {};  // names the file
  friend bool operator==(const BrokenPicture&, const BrokenPicture&) = default;
};

// A line for each: "\n  REASON, from step N on".
std::string lines_of(std::span<const BrokenPicture> pictures);

}  // namespace ddp
