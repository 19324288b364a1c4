// With `deterministic`, an op gives the same bits in every run, also on a second Ops object of the same configuration.
#include "tests/gpu/fixture.h"
#include "tests/ops/on_device.h"

#include <fmt/format.h>

#include <bit>
#include <functional>
#include <utility>

namespace ddp::testing {
namespace {

constexpr int kRepetitions = 20;

using Bits = std::vector<std::vector<uint32_t>>;

Bits bits_of(const std::vector<Values>& results) {
  Bits bits;
  for (const Values& values : results) {
    bits.emplace_back();
    for (const float v : values) bits.back().push_back(std::bit_cast<uint32_t>(v));
  }
  return bits;
}

Values not_a_number(int64_t count) { return Values(count, std::nanf("")); }

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
      const TensorOnDevice x(device, in, {}, dtype, random_values(in.elements(), 1)), y(device, out, {}, dtype),
          dy(device, out, {}, dtype, random_values(out.elements(), 4)), dx(device, in, {}, dtype);
      const WeightsOnDevice w(device, random_values(weights, 2)), b(device, random_values(out.image.c, 3));
      const OnDevice<float> dw(device, not_a_number(weights)), db(device, not_a_number(out.image.c));
      op->bind(w.data(), b.data());
      op->forward(x.tensor(), y.tensor());
      op->backward_weight(x.tensor(), y.tensor(), dy.tensor(), dw.data(), db.data(), Gradient::overwrite);
      op->backward_input(dy.tensor(), dx.tensor());
      return bits_of({y.values(), dw.values(), db.values(), dx.values()});
    };
  }
};
std::string precision_name(const ::testing::TestParamInfo<Precision>& tested) {
  const char* const names[] = {"fp32", "tf32", "bf16"};
  return names[static_cast<int>(tested.param)];
}
INSTANTIATE_TEST_SUITE_P(, DeterminismOnGpu, ::testing::Values(Precision::fp32, Precision::tf32, Precision::bf16),
                         precision_name);

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

// The shapes of ViT-B/16 and GPT-2.
TEST_P(DeterminismOnGpu, Attention) {
  for (const AttentionDesc& desc : {AttentionDesc{.tokens = 197, .width = 768, .heads = 12},
                                    AttentionDesc{.tokens = 1024, .width = 768, .heads = 12, .causal = true}}) {
    SCOPED_TRACE(fmt::format("{} tokens", desc.tokens));
    expect_same_bits([&](Gpu& gpu) -> std::function<Bits()> {
      const int64_t sizes[] = {4};
      const std::shared_ptr<Attention> attention = gpu.ops->attention(desc, sizes);
      return [&gpu, attention, &desc] {
        Device& device = *gpu.device;
        const DType dtype = gpu.ops->activation_dtype();
        const Shape in{4, {desc.tokens, 1, 3 * desc.width}}, out{4, {desc.tokens, 1, desc.width}};
        const TensorOnDevice qkv(device, in, {}, dtype, random_values(in.elements(), 1)), y(device, out, {}, dtype),
            dy(device, out, {}, dtype, random_values(out.elements(), 2)), dqkv(device, in, {}, dtype);
        attention->forward(qkv.tensor(), y.tensor());
        attention->backward(qkv.tensor(), y.tensor(), dy.tensor(), dqkv.tensor());
        return bits_of({y.values(), dqkv.values()});
      };
    });
  }
}

TEST_P(DeterminismOnGpu, BatchNorm) {
  const BatchNormDesc desc{.input = {28, 28, 64}, .format = {}, .activation = kRelu};
  const Shape shape{128, desc.input};
  expect_same_bits([&](Gpu& gpu) -> std::function<Bits()> {
    const int64_t sizes[] = {128};
    const std::shared_ptr<BatchNorm> norm = gpu.ops->batch_norm(desc, sizes);
    return [&gpu, norm, shape] {
      Device& device = *gpu.device;
      const DType dtype = gpu.ops->activation_dtype();
      const TensorOnDevice x(device, shape, {}, dtype, random_values(shape.elements(), 1)), y(device, shape, {}, dtype),
          dy(device, shape, {}, dtype, random_values(shape.elements(), 2));
      const OnDevice<float> sums(device, not_a_number(128)), t(device, not_a_number(128));
      const float count = 128 * 28 * 28;
      norm->bind(nullptr, nullptr);
      norm->sum(x.tensor(), nullptr, sums.data());
      norm->begin_forward(nullptr, sums.data(), count);
      norm->forward(x.tensor(), {}, y.tensor());
      norm->backward_sum(x.tensor(), y.tensor(), {}, dy.tensor(), t.data(), t.data() + 64);
      norm->begin_backward(t.data(), t.data() + 64, count);
      norm->backward(x.tensor(), dy.tensor(), dy.tensor());
      return bits_of({sums.values(), y.values(), t.values(), dy.values()});
    };
  });
}

TEST_P(DeterminismOnGpu, SumOfSquares) {
  const int64_t count = 2'000'001;
  expect_same_bits([&](Gpu& gpu) -> std::function<Bits()> {
    return [&] {
      const OnDevice<float> values(*gpu.device, random_values(count, 1)), sum(*gpu.device, not_a_number(1));
      gpu.ops->sum_of_squares(values.data(), count, sum.data(), Gradient::overwrite);
      return bits_of({sum.values()});
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
      const TensorOnDevice logits(*gpu.device, shape, {}, dtype, random_values(shape.elements(), 1)),
          d(*gpu.device, shape, {}, dtype);
      const OnDevice<float> stats(*gpu.device, not_a_number(2));
      const OnDevice<int32_t> on_labels(*gpu.device, labels);
      gpu.ops->softmax_cross_entropy_backward(logits.tensor(), {.labels = on_labels.data(), .size = 256}, 1.0f / 256,
                                              0.1f, d.tensor(), stats.data(), Gradient::overwrite);
      return bits_of({d.values(), stats.values()});
    };
  });
}

}  // namespace
}  // namespace ddp::testing
