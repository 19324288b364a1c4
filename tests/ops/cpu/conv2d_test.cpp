// What only the CPU's convolutions have: the choice of the implementation, and polls of the device.
#include "ops/cpu/conv2d.h"

#include "core/error.h"
#include "device/cpu/device.h"
#include "ops/cpu/blocked_conv2d.h"
#include "ops/cpu/ops.h"
#include "tests/ops/backend.h"

namespace ddp::testing {
namespace {

// The bound of Winograd's algorithm in bf16 is wide. Its test has tensors of this size.
TEST(CpuConv2d, BoundOfBf16WinogradSeesOneWrongValue) {
  const Values expected = random_values(30'240, 1), noise = random_values(30'240, 2);
  Values actual = expected;
  for (size_t i = 0; i < actual.size(); ++i) actual[i] += 0.004f * noise[i];
  EXPECT_TRUE(within(kBf16Winograd.activations, deviation(actual, expected)));
  for (const size_t wrong : {size_t{0}, actual.size() / 2, actual.size() - 1}) {
    Values one = actual;
    one[wrong] += 0.4f;
    EXPECT_LE(distance(one, expected), kBf16Winograd.activations);
    EXPECT_FALSE(within(kBf16Winograd.activations, deviation(one, expected)));
  }
}

// Our kernels, of 32 channels, take slices of all sizes up to the largest batch.
TEST(CpuConv2d, RefusesUndeclaredBatchSizes) {
  const auto device = make_cpu_device();
  for (const int64_t channels : {16, 32}) {
    const Conv2dDesc desc{.input = {8, 8, channels},
                          .input_format = Format::blocked_channels(16),
                          .out_channels = channels,
                          .window = {3, 1, 1},
                          .bias = false};
    const int64_t sizes[] = {4};
    const auto conv = make_blocked_conv2d(Workers{*device, 1}, {}, desc, sizes);
    for (const int64_t n : {3, 50}) {
      if (n == 3 && channels == 32) continue;
      const Shape shape{n, desc.input};
      const TensorOnDevice x(*device, shape, desc.input_format, DType::f32),
          y(*device, shape, conv->output_format(), DType::f32);
      Values dw(9 * channels * channels);
      EXPECT_THROW(conv->forward(x.tensor(), y.tensor()), Error);
      EXPECT_THROW(conv->backward_weight(x.tensor(), y.tensor(), y.tensor(), dw.data(), nullptr, Gradient::add), Error);
      EXPECT_THROW(conv->backward_input(y.tensor(), x.tensor()), Error);
    }
  }
}

TEST(CpuConv2d, PicksOwnKernelsForLeNetAndOneDnnForWideLayers) {
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {});
  const Conv2dDesc lenet{.input = {28, 28, 1}, .input_format = {}, .out_channels = 20, .window = {3}};
  const Conv2dDesc wide{.input = {28, 28, 3}, .input_format = {}, .out_channels = 64, .window = {3}};
  const int64_t eight[] = {8, 3}, many[] = {128, 96};
  EXPECT_EQ(ops->input_format(&lenet, eight), Format::batch_interleaved(8));
  EXPECT_EQ(ops->input_format(&lenet, many), Format::batch_interleaved(Workers{*device, 1}.kernels.widest_lanes));
  EXPECT_EQ(ops->input_format(&wide, many), Format{});
  EXPECT_EQ(ops->input_format(nullptr, many), Format{});
}

TEST(CpuConv2d, PicksOneDnnForLeNetInBf16) {
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {.precision = Precision::bf16});
  const Conv2dDesc lenet{.input = {28, 28, 1}, .input_format = {}, .out_channels = 20, .window = {3}};
  const int64_t sizes[] = {128};
  EXPECT_EQ(ops->input_format(&lenet, sizes), Format{});
  EXPECT_EQ(ops->conv2d(lenet, sizes)->output_format().kind, Format::Kind::blocked_channels);
}

// y, dx, dweight and dbias.
std::vector<Values> results_of(const Conv2dDesc& desc, int64_t n, int threads, Precision precision = Precision::fp32,
                               bool winograd = true, bool amx = true) {
  const auto device = make_cpu_device();
  const auto ops =
      make_cpu_ops(*device, {.threads = threads, .precision = precision, .winograd = winograd, .amx = amx});
  const int64_t sizes[] = {n};
  const auto conv = ops->conv2d(desc, sizes);
  const int64_t weights = desc.out_channels * desc.window.kernel * desc.window.kernel * desc.input.c / desc.groups;
  const Shape in{n, desc.input}, out{n, conv2d_output(desc)};
  const Format to = conv->output_format();
  if (amx && precision == Precision::bf16 && offers_amx() && !desc.dense) {
    EXPECT_EQ(to, desc.input_format);  // else oneDNN computes all
  }
  const DType type = ops->activation_dtype();
  const Values w = random_values(weights, 2), b = random_values(desc.out_channels, 3);
  const TensorOnDevice x(*device, in, desc.input_format, type, random_values(in.elements(), 1)),
      dy(*device, out, to, type, random_values(out.elements(), 4)), y(*device, out, to, type),
      dx(*device, in, desc.input_format, type);
  Values dw(weights), db(desc.out_channels);
  conv->bind({w.data()}, {b.data()});
  conv->forward(x.tensor(), y.tensor());
  conv->backward_weight(x.tensor(), y.tensor(), dy.tensor(), dw.data(), db.data(), Gradient::overwrite);
  conv->backward_input(dy.tensor(), dx.tensor());
  return {y.values(), dx.values(), dw, db};
}

TEST(CpuConv2d, DenseResultsDoNotDependOnTheNumberOfThreads) {
  const auto desc = [](ImageShape input, int64_t out, const Window2d& window, int64_t groups) {
    return Conv2dDesc{.input = input,
                      .input_format = {},
                      .out_channels = out,
                      .window = window,
                      .groups = groups,
                      .dense = true,
                      .relu = true};
  };
  for (const Conv2dDesc& tested : {desc({24, 24, 24}, 40, {}, 1), desc({9, 9, 200}, 400, {}, 1),
                                   desc({24, 24, 40}, 40, {5, 1, 2}, 40), desc({24, 24, 40}, 40, {3, 2, 1}, 40)}) {
    const auto one = results_of(tested, 19, 1);
    EXPECT_EQ(results_of(tested, 19, 2), one) << tested.out_channels;
    EXPECT_EQ(results_of(tested, 19, 3), one) << tested.out_channels;
  }
}

struct TestedKernels {
  Precision precision;
  bool amx;
};

// Several slices of tiles. The outputs are small enough for all passes of AMX.
void expect_same_results_of_threads(const TestedKernels& tested) {
  const auto device = make_cpu_device();
  const DType type = tested.precision == Precision::bf16 ? DType::bf16 : DType::f32;
  const Workers workers{*device, 1};
  if (workers.kernels.widest_lanes < 16 || (tested.amx && !offers_amx()))
    GTEST_SKIP() << "this processor lacks these kernels";
  for (const int64_t stride : {1, 2}) {
    // oneDNN's dense outputs, which it prefers where there is AMX, do not go with blocks of channels.
    if (stride == 2 && type == DType::bf16 && offers_amx() && !tested.amx) continue;
    const Conv2dDesc desc{.input = {8, 7, 64},
                          .input_format = tested.amx ? Format{} : Format::blocked_channels(16),
                          .out_channels = 96,
                          .window = {3, stride, 1},
                          .relu = true};
    const bool widen = must_widen(workers, type);
    const OwnPasses own = own_passes(workers, {type, true, nullptr, tested.amx, widen}, desc, 150);
    const bool strided = !tested.amx && (type == DType::f32 || widen);  // for bf16 only a measurement chooses it
    ASSERT_EQ(own, (OwnPasses{.all = stride == 1 || strided, .weights = true}));
    const auto one = results_of(desc, 150, 1, tested.precision, true, tested.amx);
    for (const int threads : {2, 3}) {
      const auto several = results_of(desc, 150, threads, tested.precision, true, tested.amx);
      for (const size_t result : {0, 1, 2, 3})
        EXPECT_TRUE(several[result] == one[result]) << result << ", stride " << stride << ", threads " << threads;
    }
  }
}

TEST(CpuConv2d, ResultsOfTilesInF32DoNotDependOnTheNumberOfThreads) {
  expect_same_results_of_threads({Precision::fp32, false});
}

TEST(CpuConv2d, ResultsOfTilesInBf16DoNotDependOnTheNumberOfThreads) {
  expect_same_results_of_threads({Precision::bf16, false});
}

TEST(CpuConv2d, ResultsOnAmxDoNotDependOnTheNumberOfThreads) {
  expect_same_results_of_threads({Precision::bf16, true});
}

// Of more than 16 MiB, with a last part of 32 channels, and more than one block of tiles.
TEST(CpuConv2d, LargeTransformedWeightsArePackedInParts) {
  const auto device = make_cpu_device();
  const Conv2dDesc desc{.input = {8, 7, 288},
                        .input_format = Format::blocked_channels(16),
                        .out_channels = 448,
                        .window = {3, 1, 1},
                        .bias = true,
                        .relu = true};
  const Workers workers{*device, 1};
  if (workers.kernels.widest_lanes < 16) GTEST_SKIP() << "this processor lacks AVX-512";
  ASSERT_TRUE(own_passes(workers, {}, desc, 17).all);
  const auto one = results_of(desc, 17, 1), direct = results_of(desc, 17, 1, Precision::fp32, false);
  EXPECT_EQ(results_of(desc, 17, 3), one);
  for (const size_t result : {0, 1, 2, 3}) EXPECT_TRUE(within(3e-5, deviation(one[result], direct[result]))) << result;
}

TEST(CpuConv2d, LargeWeightsOnAmxArePackedInParts) {
  const auto device = make_cpu_device();
  const Conv2dDesc desc{
      .input = {5, 4, 992}, .input_format = {}, .out_channels = 960, .window = {3, 1, 1}, .bias = true, .relu = true};
  const Workers workers{*device, 1};
  if (!offers_amx()) GTEST_SKIP() << "this processor lacks AMX";
  ASSERT_TRUE(own_passes(workers, {DType::bf16, true, nullptr, true}, desc, 17).all);
  const auto ours = results_of(desc, 17, 1, Precision::bf16, true, true),
             peer = results_of(desc, 17, 1, Precision::bf16, true, false);  // oneDNN's
  EXPECT_EQ(results_of(desc, 17, 3, Precision::bf16, true, true), ours);
  for (const size_t result : {0, 1, 2, 3}) EXPECT_TRUE(within(5e-3, deviation(ours[result], peer[result]))) << result;
}

TEST(CpuConv2d, PicksWinogradForWideLayersOfStrideOneWithEnoughTiles) {
  const auto suits = [](int64_t extent, int64_t in, int64_t out, const Window2d& window, int64_t n) {
    const Conv2dDesc desc{.input = {extent, extent, in}, .input_format = {}, .out_channels = out, .window = window};
    return suits_winograd(desc, n);
  };
  EXPECT_TRUE(suits(28, 64, 64, {3, 1, 1}, 1));
  EXPECT_TRUE(suits(4, 512, 512, {3, 1, 1}, 24));
  EXPECT_FALSE(suits(4, 512, 512, {3, 1, 1}, 23));
  EXPECT_TRUE(suits(30, 64, 64, {3, 1, 0}, 1));
  EXPECT_FALSE(suits(28, 64, 64, {3, 2, 1}, 64));
  EXPECT_FALSE(suits(28, 64, 64, {5, 1, 1}, 64));
  EXPECT_FALSE(suits(28, 64, 64, {3, 1, 2}, 64));
  EXPECT_FALSE(suits(28, 64, 64, {3, 1, {0, 0, 1, 1}}, 64));
  EXPECT_FALSE(suits(28, 16, 64, {3, 1, 1}, 64));
  EXPECT_FALSE(suits(28, 64, 40, {3, 1, 1}, 64));
}

TEST(CpuConv2d, PicksItsOwnPassesWhereTheProcessorAndTheShapeSuit) {
  const auto device = make_cpu_device();
  const Workers workers{*device, 1};
  if (workers.kernels.widest_lanes < 16) GTEST_SKIP() << "this processor lacks AVX-512";
  const Conv2dDesc suited{.input = {7, 7, 64},
                          .input_format = Format::blocked_channels(16),
                          .out_channels = 32,
                          .window = {3, 1, {0, 2, 1, 0}}};
  const OwnPasses none, all{true, true}, weights{false, true};
  const DnnlConfig f32, direct{DType::f32, false, nullptr}, bf16{DType::bf16, true, nullptr, false},
      amx{DType::bf16, true, nullptr, true};
  const auto picked = [&](const auto& change, int64_t n, const DnnlConfig& config) {
    Conv2dDesc desc = suited;
    change(desc);
    return own_passes(workers, config, desc, n);
  };
  const auto nothing = [](Conv2dDesc&) {};
  EXPECT_EQ(picked(nothing, 6, f32), all);
  EXPECT_EQ(picked(nothing, 5, f32), none);  // 6 x 7 outputs: a tile of 49
  EXPECT_EQ(picked(nothing, 6, direct), none);
  EXPECT_EQ(picked(nothing, 7, direct), weights);
  EXPECT_EQ(picked([](Conv2dDesc& d) { d.input.c = 48; }, 5, f32), none);
  EXPECT_EQ(picked([](Conv2dDesc& d) { d.out_channels = 48; }, 5, f32), none);
  EXPECT_EQ(picked([](Conv2dDesc& d) { d.input_format = Format::blocked_channels(8); }, 5, f32), none);
  EXPECT_EQ(picked([](Conv2dDesc& d) { d.window = {5, 1, 1}; }, 50, f32), none);
  EXPECT_EQ(picked([](Conv2dDesc& d) { d.window.dilation = 2; }, 50, f32), none);
  EXPECT_EQ(picked([](Conv2dDesc& d) { d.groups = 2; }, 50, f32), none);
  EXPECT_EQ(picked([](Conv2dDesc& d) { d.dense = true; }, 50, f32), none);
  EXPECT_EQ(picked([](Conv2dDesc& d) { d.window = {3, 1, 3}; }, 50, f32), none);  // 11 x 11 outputs
  EXPECT_EQ(picked([](Conv2dDesc& d) { d.window = {3, 2, 1}; }, 15, f32), none);  // 4 x 4
  EXPECT_EQ(picked([](Conv2dDesc& d) { d.window = {3, 2, 1}; }, 16, f32), all);
  EXPECT_EQ(picked([](Conv2dDesc& d) { d.window = {3, 2, 1}; }, 16, direct), weights);
  const auto strided = [](Conv2dDesc& d, const Padding& padding) {  // 4 x 4
    d.window = {3, 2, padding};
    d.input.h = d.input.w = 8;
  };
  EXPECT_EQ(picked([&](Conv2dDesc& d) { strided(d, {1, 1, 0, 0}); }, 16, f32), all);
  EXPECT_EQ(picked([&](Conv2dDesc& d) { strided(d, {0, 1, 1, 0}); }, 16, f32), weights);
  EXPECT_EQ(picked([&](Conv2dDesc& d) { strided(d, {1, 0, 0, 1}); }, 16, f32), weights);
  EXPECT_EQ(picked(
                [&](Conv2dDesc& d) {
                  strided(d, {1, 1, 0, 0}), d.input.h = d.input.w = 15;
                },
                16, f32),
            weights);  // one tile of outputs, but four of input gradients
  EXPECT_EQ(picked([](Conv2dDesc& d) { d.window = {3, 3, 1}; }, 64, f32), weights);  // 3 x 3
  EXPECT_EQ(picked([](Conv2dDesc& d) { d.window = {1}; }, 50, f32), none);
  EXPECT_EQ(picked([](Conv2dDesc& d) { d.window = {3, 1, 0}, d.input.h = d.input.w = 4; }, 99, f32), weights);  // 2 x 2
  const Workers narrow(*device, 1, InstructionSet::v3);
  EXPECT_EQ(own_passes(narrow, f32, suited, 50), none);
  EXPECT_EQ(own_passes(narrow, bf16, suited, 50), none);
  if (!multiplies_bf16(workers)) return;
  EXPECT_EQ(picked(nothing, 6, bf16), all);
  EXPECT_EQ(picked([](Conv2dDesc& d) { d.window = {1}; }, 5, bf16), none);  // 245 outputs
  EXPECT_EQ(picked([](Conv2dDesc& d) { d.window = {1}; }, 6, bf16), weights);
  if (!offers_amx()) return;
  EXPECT_EQ(picked(nothing, 6, amx), none);  // in blocks
  const auto dense = [](Conv2dDesc& d) { d.input_format = {}; };
  EXPECT_EQ(picked(dense, 6, bf16), none);
  EXPECT_EQ(picked(dense, 6, amx), none);  // 42 outputs of a sample
  EXPECT_EQ(picked(dense, 7, amx), all);
  EXPECT_EQ(picked([&](Conv2dDesc& d) { dense(d), d.input.h = 11; }, 7, amx), weights);  // 70 outputs
  EXPECT_EQ(picked([&](Conv2dDesc& d) { dense(d), d.window.padding = Padding{1}, d.input.h = 9; }, 7, amx), all);  // 63
  EXPECT_EQ(picked([&](Conv2dDesc& d) { dense(d), d.window.padding = Padding{1}, d.input.h = d.input.w = 8; }, 7, amx),
            weights);  // 64
  EXPECT_EQ(picked([&](Conv2dDesc& d) { dense(d), d.window = {1, 2}; }, 16, amx), weights);
  Conv2dDesc on_tiles = suited;
  on_tiles.input_format = {};
  EXPECT_EQ(own_passes(narrow, amx, on_tiles, 50), none);
}

// oneDNN computes slices of 8 samples, our kernels blocks of 16 tiles of 49 outputs.
TEST(CpuConv2d, PollsTheDeviceBetweenSlices) {
  const auto device = make_cpu_device();
  int polls = 0;
  device->set_poll([&] { ++polls; });
  const Conv2dDesc desc{.input = {32, 32, 32},
                        .input_format = Format::blocked_channels(16),
                        .out_channels = 32,
                        .window = {3, 1, 1},
                        .bias = false};
  const int64_t sizes[] = {60};
  const Workers workers{*device, 1};
  const Values w(32 * 32 * 9, 1.0f);
  const Shape shape{60, desc.input};
  const TensorOnDevice x(*device, shape, desc.input_format, DType::f32);
  for (const bool winograd : {false, true}) {
    const DnnlConfig config{DType::f32, winograd, nullptr};
    const auto conv = make_blocked_conv2d(workers, config, desc, sizes);
    const TensorOnDevice y(*device, shape, conv->output_format(), DType::f32);
    conv->bind({w.data()}, {});
    polls = 0;
    conv->forward(x.tensor(), y.tensor());
    EXPECT_GE(polls, own_passes(workers, config, desc, 60).all ? 60 : 1 + 3);  // one for the weights
  }
}

TEST(CpuConv2d, PollsTheDeviceWhileItComputes) {
  const auto device = make_cpu_device();
  int polls = 0;
  device->set_poll([&] { ++polls; });
  const Conv2dDesc desc{
      .input = {9, 9, 3}, .input_format = Format::batch_interleaved(8), .out_channels = 5, .window = {3}};
  const auto conv = make_lane_conv2d(Workers{*device, 1}, desc);
  const Values w(5 * 27, 1.0f), b(5);
  conv->bind({w.data()}, {b.data()});
  const TensorOnDevice x(*device, {16, desc.input}, desc.input_format, DType::f32),
      y(*device, {16, conv2d_output(desc)}, desc.input_format, DType::f32);
  conv->forward(x.tensor(), y.tensor());
  EXPECT_EQ(polls, 2 * 7);  // one per row of each block
}

TEST(CpuPlans, RefuseMoreSamplesThanDeclared) {
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {});
  const int64_t sizes[] = {4};
  const TensorOnDevice x(*device, {5, {1, 1, 3}}, {}, DType::f32);
  const auto linear = ops->linear({.in_features = 3, .out_features = 2, .input_format = {}}, sizes);
  const TensorOnDevice y(*device, {5, {1, 1, 2}}, linear->output_format(), DType::f32);
  EXPECT_THROW(linear->forward(x.tensor(), y.tensor()), Error);
}

}  // namespace
}  // namespace ddp::testing
