// With `deterministic`, an op gives the same bits in every run, also on a second Ops object of the same configuration.
#include "tests/gpu/fixture.h"

#include <functional>
#include <utility>

namespace ddp::testing {
namespace {

constexpr int kRepetitions = 20;

using Bits = std::vector<std::vector<char>>;

class DeterminismOnGpu : public ::testing::TestWithParam<Precision> {
 protected:
  // Runs the pass that `make` returns many times. Each half of the repetitions has a new Ops object.
  void expect_same_bits(const std::function<std::function<Bits()>(Gpu&)>& make) {
    Bits first;
    for (int half = 0; half < 2; ++half) {
      Gpu gpu(GetParam(), true);
      const std::function<Bits()> pass = make(gpu);
      for (int i = 0; i < kRepetitions / 2; ++i) {
        Bits bits = pass();
        if (first.empty())
          first = std::move(bits);
        else
          ASSERT_EQ(bits, first) << "repetition " << half * kRepetitions / 2 + i;
      }
    }
  }

  // One forward and backward pass of a convolution or a linear layer.
  template <class Op>
  static std::function<Bits()> pass_of(Gpu& gpu, std::shared_ptr<Op> op, const Shape& in, const Shape& out,
                                       int64_t weights) {
    return [&gpu, op, in, out, weights] {
      Device& device = *gpu.device;
      const DType dtype = gpu.ops->activation_dtype();
      const OnGpu x(device, random_values(in.elements(), 1), dtype), w(device, random_values(weights, 2)),
          b(device, random_values(out.image.c, 3)), dy(device, random_values(out.elements(), 4), dtype);
      const OnGpu y(device, out.elements(), dtype), dx(device, in.elements(), dtype), dw(device, weights),
          db(device, out.image.c);
      op->bind(w.f32(), b.f32());
      op->forward(x.tensor(in), y.tensor(out));
      op->backward_weight(x.tensor(in), y.tensor(out), dy.tensor(out), dw.f32(), db.f32(), Gradient::overwrite);
      op->backward_input(dy.tensor(out), dx.tensor(in));
      return Bits{y.bits(), dw.bits(), db.bits(), dx.bits()};
    };
  }
};
INSTANTIATE_TEST_SUITE_P(, DeterminismOnGpu, ::testing::ValuesIn(kPrecisions),
                         [](const auto& tested) { return name_of(tested.param); });

TEST_P(DeterminismOnGpu, Convolution) {
  const Conv2dDesc descs[] = {
      {.input = {26, 26, 1}, .input_format = {}, .out_channels = 20, .window = {3}, .relu = true},
      {.input = {12, 12, 20}, .input_format = {}, .out_channels = 50, .window = {5}, .relu = true},
      {.input = {8, 8, 64}, .input_format = {}, .out_channels = 128, .window = {3, 1, 1}},
  };
  for (const Conv2dDesc& desc : descs) {
    SCOPED_TRACE(fmt::format("{} to {} channels", desc.input.c, desc.out_channels));
    const Shape in{256, desc.input}, out{256, conv2d_output(desc)};
    expect_same_bits([&](Gpu& gpu) {
      const int64_t sizes[] = {256};
      const int64_t weights = desc.out_channels * desc.window.kernel * desc.window.kernel * desc.input.c;
      return pass_of(gpu, std::shared_ptr<Conv2d>(gpu.ops->conv2d(desc, sizes)), in, out, weights);
    });
  }
}

TEST_P(DeterminismOnGpu, Linear) {
  const LinearDesc desc{.in_features = 800, .out_features = 128, .input_format = {}, .relu = true};
  const Shape in{256, {1, 1, 800}}, out{256, {1, 1, 128}};
  expect_same_bits([&](Gpu& gpu) {
    const int64_t sizes[] = {256};
    return pass_of(gpu, std::shared_ptr<Linear>(gpu.ops->linear(desc, sizes)), in, out, 800 * 128);
  });
}

TEST_P(DeterminismOnGpu, BatchNorm) {
  const BatchNormDesc desc{.input = {28, 28, 64}, .format = {}, .relu = true};
  const Shape shape{128, desc.input};
  expect_same_bits([&](Gpu& gpu) -> std::function<Bits()> {
    const int64_t sizes[] = {128};
    const std::shared_ptr<BatchNorm> norm = gpu.ops->batch_norm(desc, sizes);
    return [&gpu, norm, shape] {
      Device& device = *gpu.device;
      const DType dtype = gpu.ops->activation_dtype();
      const OnGpu x(device, random_values(shape.elements(), 1), dtype), y(device, shape.elements(), dtype),
          dy(device, random_values(shape.elements(), 2), dtype), sums(device, 128), t(device, 128);
      const float count = 128 * 28 * 28;
      norm->bind(nullptr, nullptr);
      norm->sum(x.tensor(shape), nullptr, sums.f32());
      norm->forward(x.tensor(shape), {}, y.tensor(shape), nullptr, sums.f32(), count);
      norm->backward_sum(x.tensor(shape), y.tensor(shape), {}, dy.tensor(shape), t.f32());
      norm->backward(x.tensor(shape), dy.tensor(shape), dy.tensor(shape), t.f32(), count);
      return Bits{sums.bits(), y.bits(), t.bits(), dy.bits()};
    };
  });
}

TEST_P(DeterminismOnGpu, SumOfSquares) {
  const int64_t count = 2'000'001;
  expect_same_bits([&](Gpu& gpu) -> std::function<Bits()> {
    return [&] {
      const OnGpu values(*gpu.device, random_values(count, 1)), sum(*gpu.device, 1);
      gpu.ops->sum_of_squares(values.f32(), count, sum.f32(), Gradient::overwrite);
      return Bits{sum.bits()};
    };
  });
}

TEST_P(DeterminismOnGpu, SoftmaxCrossEntropy) {
  const Shape shape{256, {1, 1, 10}};
  std::vector<int32_t> labels(256);
  for (int i = 0; i < 256; ++i) labels[i] = i * 7 % 10;
  expect_same_bits([&](Gpu& gpu) -> std::function<Bits()> {
    return [&] {
      const DType dtype = gpu.ops->activation_dtype();
      const OnGpu logits(*gpu.device, random_values(shape.elements(), 1), dtype),
          d(*gpu.device, shape.elements(), dtype), stats(*gpu.device, 2);
      const Buffer on_gpu = uploaded(*gpu.device, labels);
      gpu.ops->softmax_cross_entropy_backward(logits.tensor(shape), {.labels = on_gpu.as<int32_t>(), .size = 256},
                                              1.0f / 256, 0.1f, d.tensor(shape), stats.f32(), Gradient::overwrite);
      return Bits{d.bits(), stats.bits()};
    };
  });
}

}  // namespace
}  // namespace ddp::testing
