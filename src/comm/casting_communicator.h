// A decorator that sends gradients in bf16. all_reduce() and reduce_scatter() of an f32 span inside `gradients` run on
// its bf16 copy in `comm_buffer`. All other collectives go to the inner communicator unchanged.
#pragma once

#include "comm/communicator.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace ddp {

struct GradientCast {
  std::span<float> gradients;       // in device memory
  uint16_t* comm_buffer = nullptr;  // bf16 in device memory: gradients.size() elements, same offsets

  // Issue the cast of the elements [offset, offset + count) to comm_buffer, and back to `gradients`.
  std::function<void(int64_t offset, int64_t count)> cast_to_comm = {}, cast_from_comm = {};
};

// The start of a collective casts its span to the buffer. wait() casts the result back: for an all-reduce the whole
// span, for a reduce-scatter this rank's part. A span that begins in `gradients` must end there. Sequence numbers are
// those of `inner`, which outlives the result. Unlike other communicators: wait for a gradient span before another
// collective uses it.
std::unique_ptr<Communicator> make_casting_communicator(Communicator& inner, GradientCast cast);

}  // namespace ddp
