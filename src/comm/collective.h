// A collective as a value: the parameters that must be equal on all ranks, and this rank's memory.
#pragma once

#include "comm/communicator.h"

#include <string>

namespace ddp {

struct Collective {
  enum class Kind : uint8_t { all_reduce, reduce_scatter, all_gather, broadcast };
  Kind kind = Kind::all_reduce;
  DeviceSpan span;
  int root = 0;  // rank whose span a broadcast copies
};

// Whether kind, count, dtype, int8 and root are equal, as the posts of two ranks for one collective must be.
bool same_on_all_ranks(const Collective& a, const Collective& b);

// Text for messages: "all_reduce of 1024 f32".
std::string describe(const Collective& collective);

}  // namespace ddp
