// A batch norm accepts a batch that is smaller than the largest planned one. With lanes, such a batch can have more
// work items than the planned ones, because its last block is ragged.
#include "device/cpu/device.h"
#include "ops/cpu/ops.h"
#include "tests/ops/on_device.h"

namespace ddp::testing {
namespace {

TEST(UndeclaredBatch, BatchNormSumsASmallerBatch) {
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {});
  const int64_t sizes[] = {16};
  for (const Format format : {Format{}, Format::batch_interleaved(8), Format::batch_interleaved(16),
                              Format::blocked_channels(8), Format::blocked_channels(16)})
    for (int64_t n = 1; n <= 16; ++n) {
      const Shape shape{n, {4, 4, 3}};  // with 8 lanes, one item for 16 samples, two for 15
      const auto norm = ops->batch_norm({.input = shape.image, .format = format}, sizes);
      const Values x = random_values(shape.elements(), 1);
      const TensorOnDevice input(*device, shape, format, DType::f32, x);
      Values sums(6), expected(6);
      norm->sum(input.tensor(), nullptr, sums.data());
      for (size_t i = 0; i < x.size(); ++i) {
        expected[i % 3] += x[i];
        expected[3 + i % 3] += x[i] * x[i];
      }
      expect_close(sums, expected, "sums");
    }
}

}  // namespace
}  // namespace ddp::testing
