// Checks of a device's ops. tests/ops/cuda runs them on the emulator, tests/gpu on a GPU.
#pragma once

#include "ops/ops.h"
#include "tests/ops/cuda/on_device.h"
#include "tests/ops/reference/ops.h"

namespace ddp::testing {

struct Tested {
  Device& device;
  Ops& ops;
  Ops& reference;  // on host memory
  DType type;      // activation type

  Values random(int64_t count, uint64_t seed) const { return rounded(random_values(count, seed), type); }
  double tolerance() const { return type == DType::bf16 ? 1e-2 : 1e-5; }
};

// Each compares with the reference, for odd shapes, the smallest shapes, and shapes larger than the grid.
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
void check_copy_or_add_and_bf16(const Tested& t);
void check_sum_of_squares_and_clip_scale(const Tested& t);

}  // namespace ddp::testing
