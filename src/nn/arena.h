// Places values in one block of memory. Values whose lifetimes overlap do not share bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ddp {

struct Lifetime {
  int64_t bytes = 0;
  int first = 0, last = 0;  // program steps of the first write and of the last read, inclusive
};

struct Arena {
  std::vector<int64_t> offsets;  // in bytes, multiples of 64, one per value
  int64_t bytes = 0;
};

// First fit in order of decreasing size: each value gets the lowest offset that is free for its whole lifetime.
Arena plan_arena(std::span<const Lifetime> values);

}  // namespace ddp
