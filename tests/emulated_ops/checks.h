// What a device's ops must do, whatever the device: checked on the emulator here, and on a GPU by tests/gpu.
#pragma once

#include "ops/ops.h"
#include "tests/emulated_ops/on_device.h"
#include "tests/reference/ops.h"

namespace ddp::testing {

struct Tested {
  Device& device;
  Ops& ops;
  Ops& reference;  // on memory of the host
  DType type;      // of activations

  Values random(int64_t count, uint64_t seed) const { return rounded(random_values(count, seed), type); }
  double tolerance() const { return type == DType::bf16 ? 1e-2 : 1e-5; }
};

// Each against the reference, over shapes that are odd, as small as can be, and larger than the grid.
void check_average_pooling(const Tested& t);
void check_maximum_pooling(const Tested& t);
void check_global_average_pooling(const Tested& t);
void check_batch_norm(const Tested& t);
void check_batch_norm_of_one_value(const Tested& t);
void check_running_stats(const Tested& t);
void check_dropout(const Tested& t);
void check_optimizers(const Tested& t);
void check_optimizer_parts(const Tested& t);
void check_lars(const Tested& t);
void check_add(const Tested& t);
void check_put_and_bf16(const Tested& t);
void check_sum_of_squares_and_clip_scale(const Tested& t);

}  // namespace ddp::testing
