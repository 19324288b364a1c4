// cuDNN's attention on the emulator, which computes the operations of its graphs one after another.
#include "core/error.h"
#include "device/cpu/device.h"
#include "device/cuda/device.h"
#include "ops/cuda/cudnn_plan.h"
#include "ops/cuda/ops.h"
#include "tests/judge.h"
#include "tests/ops/on_device.h"
#include "tests/ops/reference/ops.h"

#include <emulator/emulator.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

namespace ddp::testing {
namespace {

constexpr AttentionDesc kSmall{.tokens = 17, .width = 48, .heads = 3};

class EmulatedAttention : public ::testing::Test {
 protected:
  void SetUp() override { cudnn::offer_attention_engines({3, 4}); }
  void TearDown() override {
    cudnn::offer_attention_engines({});
    emulator::set_capability(90);
  }

  static TensorOnDevice on(Device& device, const AttentionDesc& desc, int64_t n, int64_t parts, DType type,
                           const std::optional<Values>& values) {
    const Shape shape{n, {desc.tokens, 1, parts * desc.width}};
    return values ? TensorOnDevice(device, shape, {}, type, *values) : TensorOnDevice(device, shape, {}, type);
  }

  // Compares a forward and a backward pass with the reference. Returns the number of calls of cuDNN.
  int64_t calls_of(const AttentionDesc& desc) {
    const auto host = make_cpu_device(), device = make_cuda_device({});
    const auto ops = make_cuda_ops(*device, config);
    const DType type = ops->activation_dtype();
    const int64_t sizes[] = {n + 1, 0, n};
    const auto tested = ops->attention(desc, sizes), beside = ops->attention(desc, sizes),
               expected = make_reference_ops(*host)->attention(desc, {});
    const int64_t values = n * desc.tokens * desc.width;
    const Values qkv = rounded(random_values(3 * values, 1), type), dy = rounded(random_values(values, 2), type);
    const auto tensor = [&](Device& where, DType dtype, int64_t parts, const std::optional<Values>& of) {
      return on(where, desc, n, parts, dtype, of);
    };
    const auto x = tensor(*device, type, 3, qkv), y = tensor(*device, type, 1, {}),
               gradient = tensor(*device, type, 1, dy), dx = tensor(*device, type, 3, {}),
               other = tensor(*device, type, 1, {});
    const auto ex = tensor(*host, DType::f32, 3, qkv), ey = tensor(*host, DType::f32, 1, {}),
               egradient = tensor(*host, DType::f32, 1, dy), edx = tensor(*host, DType::f32, 3, {});
    const auto before = emulator::issued();
    tested->forward(x.tensor(), y.tensor());
    beside->forward(gradient_as_qkv(*device, type, desc).tensor(),
                    other.tensor());  // it must keep no state of `tested`
    tested->backward(x.tensor(), y.tensor(), gradient.tensor(), dx.tensor());
    const auto after = emulator::issued();
    expected->forward(ex.tensor(), ey.tensor());
    expected->backward(ex.tensor(), ey.tensor(), egradient.tensor(), edx.tensor());
    expect_close(y.values(), ey.values(), "y");
    expect_close(dx.values(), edx.values(), "dqkv");
    return after.library_calls - before.library_calls;
  }

  TensorOnDevice gradient_as_qkv(Device& device, DType type, const AttentionDesc& desc) const {
    return on(device, desc, n, 3, type, rounded(random_values(3 * n * desc.tokens * desc.width, 3), type));
  }

  static void expect_close(const Values& actual, const Values& expected, const char* what) {
    const Deviation of = deviation(actual, expected);
    EXPECT_TRUE(of.error <= 1e-2 * of.norm && of.largest_error <= 2e-2 * of.largest)
        << what << ": " << of.error / of.norm << " of the norm, " << of.largest_error / of.largest << " of the largest";
  }

  int64_t n = 2;
  std::vector<int64_t> agreed;
  std::vector<std::string> measured;
  CudaOpsConfig config{.precision = Precision::bf16,
                       .measuring = {.agree = [this](auto words) { agreed.push_back(words[0]); },
                                     .measured = [this](const MeasuredPass& pass) { measured.push_back(pass.name); }}};
};

TEST_F(EmulatedAttention, OfCudnnEqualsTheReference) {
  for (const bool deterministic : {false, true})
    for (const bool causal : {false, true})
      for (AttentionDesc desc : {kSmall, AttentionDesc{.tokens = 70, .width = 64, .heads = 1}}) {
        SCOPED_TRACE(fmt::format("{} tokens{}{}", desc.tokens, causal ? ", causal" : "",
                                 deterministic ? ", deterministic" : ""));
        desc.causal = causal;
        config.deterministic = deterministic;
        EXPECT_EQ(calls_of(desc), 3);
      }
}

// Equal layers have one measurement of a pass and one agreement each.
TEST_F(EmulatedAttention, HasTheEngineOfRankZero) {
  EXPECT_EQ(calls_of(kSmall), 3);
  EXPECT_EQ(agreed, (std::vector<int64_t>{3, 3, 3, 3}));
  EXPECT_EQ(measured, (std::vector<std::string>{"forward pass of attention, 3 samples of 17 tokens, 3 heads of 16",
                                                "gradient of attention, 3 samples of 17 tokens, 3 heads of 16"}));
  config.measuring.agree = [](auto words) { words[0] = -1; };  // rank 0 has none
  EXPECT_EQ(calls_of(kSmall), 0);
}

TEST_F(EmulatedAttention, IsOurOwnWhereCudnnHasNone) {
  const auto expect_own = [&](const AttentionDesc& desc, size_t agreements, const char* why, int told = 0) {
    SCOPED_TRACE(why);
    agreed.clear();
    measured.clear();
    EXPECT_EQ(calls_of(desc), 0);
    EXPECT_EQ(agreed.size(), agreements);
    EXPECT_EQ(std::ssize(measured), told);  // of passes that no engine computes
  };
  expect_own({.tokens = 17, .width = 36, .heads = 3}, 0, "heads of 12");
  expect_own({.tokens = 5, .width = 136, .heads = 1}, 0, "heads of 136");
  expect_own({.tokens = 1, .width = 16, .heads = 2}, 0, "one token");
  cudnn::offer_attention_engines({-1, -2});
  expect_own(kSmall, 4, "all engines fail", 2);
  cudnn::offer_attention_engines({});
  expect_own(kSmall, 4, "no engine", 2);
  cudnn::offer_attention_engines({3, 4});
  emulator::set_capability(100);
  config.deterministic = true;
  expect_own(kSmall, 4, "deterministic on Blackwell");
  config.deterministic = false;
  for (const Precision precision : {Precision::fp32, Precision::tf32}) {
    config.precision = precision;
    expect_own(kSmall, 0, "f32 activations");
  }
}

}  // namespace
}  // namespace ddp::testing
