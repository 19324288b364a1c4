// Where values that live for a while lie in one block of memory: values that live at the same time do not overlap.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ddp {

struct Lifetime {
  int64_t bytes = 0;
  int first = 0, last = 0;  // the steps of the program at which the value is first written and last read, inclusive
};

struct Arena {
  std::vector<int64_t> offsets;  // bytes, multiples of 64, one for each value
  int64_t bytes = 0;
};

// Largest first, each at the lowest offset that is free for its whole life.
Arena plan_arena(std::span<const Lifetime> values);

}  // namespace ddp
