// Sends gradients in bf16 over a communicator that sums what it is given. A decorator: sums and reduce-scatters of f32
// spans inside `gradients` travel in `comm_buffer`; every other span travels as it is.
#pragma once

#include "comm/communicator.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace ddp {

struct GradientCast {
  std::span<float> gradients;       // on the device
  uint16_t* comm_buffer = nullptr;  // bf16 of the device, as many elements, at the same offsets

  // Issue the conversion of [offset, offset + count) to the buffer, and back from it.
  std::function<void(int64_t offset, int64_t count)> cast_to_comm = {}, cast_from_comm = {};
};

// A span is cast to the buffer when its collective starts. wait() casts back what the collective left on this rank: of
// a reduce-scatter this rank's part. Sequence numbers are those of `inner`, which outlives the result.
std::unique_ptr<Communicator> make_casting_communicator(Communicator& inner, GradientCast cast);

}  // namespace ddp
