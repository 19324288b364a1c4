// A collective as a value: what ranks must agree on, and this rank's memory for it.
#pragma once

#include "comm/communicator.h"

#include <string>

namespace ddp {

struct Collective {
  enum class Kind : uint8_t { all_reduce, reduce_scatter, all_gather, broadcast };
  Kind kind = Kind::all_reduce;
  DeviceSpan span;
  int root = 0;  // of a broadcast
};

bool same_on_all_ranks(const Collective& a, const Collective& b);

// "sum of 1024 f32", for messages.
std::string describe(const Collective& collective);

}  // namespace ddp
