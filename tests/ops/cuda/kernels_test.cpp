// CUDA kernels that are not an op, on the emulator.
#include "device/cuda/device.h"
#include "ops/cuda/bias_gradient.h"
#include "ops/cuda/context.h"
#include "ops/cuda/elementwise.h"
#include "tests/ops/backend.h"

namespace ddp::testing {
namespace {

class CudaKernels : public BackendTest {
 protected:
  CudaContext context{*device, {backend.precision, false, {}}};
};
INSTANTIATE_TEST_SUITE_P(, CudaKernels, ::testing::ValuesIn(backends()), kBackendName);

TEST_P(CudaKernels, BiasGradientMasksAndSums) {
  const Shape shapes[] = {{1, {1, 1, 1}},    {3, {1, 1, 7}},     {256, {1, 1, 10}}, {256, {1, 1, 128}},
                          {8, {26, 26, 20}}, {9, {9, 9, 50}},    {2, {7, 11, 5}},   {40, {4, 4, 301}},
                          {5, {3, 3, 512}},  {67, {3, 3, 1100}}, {1, {37, 37, 16}}};
  for (const Shape& shape : shapes)
    for (const bool masked : {false, true}) {
      const int64_t count = shape.elements(), channels = shape.image.c;
      SCOPED_TRACE(fmt::format("{} rows of {}, masked {}", count / channels, channels, masked));
      const Values y = random(count, 1), dy = random(count, 2), old = random_values(channels, 3);
      std::vector<double> sums(channels);
      Values expected_dy = dy, overwritten(channels), added(channels);
      for (int64_t i = 0; i < count; ++i) {
        if (masked && !(y[i] > 0)) expected_dy[i] = 0;
        sums[i % channels] += expected_dy[i];
      }
      for (int64_t c = 0; c < channels; ++c) {
        overwritten[c] = static_cast<float>(sums[c]);
        added[c] = static_cast<float>(sums[c] + old[c]);
      }
      const auto ay = filled(shape, y), ady = filled(shape, dy), only_masked = filled(shape, dy);
      const Tensor outputs = masked ? ay.tensor() : Tensor{};
      const auto once = unwritten(channels), again = unwritten(channels), sum = on_device(old);
      reserve_bias_gradient(context, count / channels, channels);
      bias_gradient(context, outputs, ady.tensor(), once.data(), Gradient::overwrite);
      EXPECT_EQ(ady.values(), expected_dy);
      bias_gradient(context, outputs, ady.tensor(), again.data(), Gradient::overwrite);
      bias_gradient(context, outputs, only_masked.tensor(), nullptr, Gradient::overwrite);
      EXPECT_EQ(only_masked.values(), expected_dy);
      bias_gradient(context, outputs, ady.tensor(), sum.data(), Gradient::add);
      expect_close(once.values(), overwritten, "overwritten");
      expect_close(sum.values(), added, "added");
      EXPECT_EQ(once.values(), again.values());
    }
}

TEST_P(CudaKernels, ReservationForTheMostRowsServesFewerRows) {
  const int64_t channels = 20;
  reserve_bias_gradient(context, 6000, channels);
  for (const int64_t rows : {1, 40, 800, 830, 2500, 5999}) {
    const auto dy = filled({rows, {1, 1, channels}}, Values(rows * channels, 1));
    const auto dbias = unwritten(channels);
    bias_gradient(context, {}, dy.tensor(), dbias.data(), Gradient::overwrite);
    EXPECT_EQ(dbias.values(), Values(channels, static_cast<float>(rows)));
  }
}

// The op adds a bf16 weight gradient to the f32 gradient.
TEST_P(CudaKernels, Bf16IsAddedToF32) {
  for (const int64_t count : {1, 3, 8, 129'068})
    each_setup({Format{}}, backend.offsets, [&] {
      const Values a = rounded(random_values(count, 1), DType::bf16), b = random_values(count, 2);
      Values sum(count);
      for (int64_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
      const TensorOnDevice halves(*device, {1, {1, 1, count}}, {}, DType::bf16, a, 0, before);
      const auto target = on_device(b);
      from_bf16(context, halves.tensor().data, target.data(), count, Gradient::add);
      EXPECT_EQ(target.values(), sum);
    });
}

}  // namespace
}  // namespace ddp::testing
