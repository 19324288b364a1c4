#include "ops/cpu/conv2d.h"

#include "core/error.h"
#include "ops/cpu/conv2d_winograd.h"
#include "tests/ops/expected.h"

#include <fmt/format.h>
#include <omp.h>

#include <string>

namespace ddp::testing {
namespace {

struct Conv2dCase {
  int64_t n, h, w, in, out, kernel, stride = 1;
  Padding padding = {};
  bool relu = false, bias = true;
};

const Conv2dCase kConv2dCases[] = {
    {8, 28, 28, 1, 20, 3, 1, 0, true},  // LeNet's
    {17, 13, 13, 20, 50, 5, 1, 0, true},
    {48, 13, 13, 20, 50, 5, 1, 0, true},
    {128, 6, 6, 3, 7, 3},
    {1, 5, 5, 1, 1, 5},
    {5, 9, 7, 3, 11, 1},
    {5, 9, 7, 4, 6, 1, 2},
    {8, 11, 10, 6, 16, 5, 1, 2, true},
    {17, 12, 9, 3, 13, 3, 2, 1, true},
    {3, 10, 10, 2, 4, 7, 2, 3},
    {2, 7, 7, 5, 5, 2, 3},
    {4, 4, 4, 3, 5, 3, 1, 2},
    {6, 3, 3, 2, 3, 5, 1, 2},
    {3, 8, 6, 5, 7, 3, 2, {0, 0, 1, 1}, true},  // "same" in Keras
    {4, 9, 7, 3, 6, 3, 2, {1, 0, 2, 1}},
    {9, 6, 8, 2, 12, 4, 1, {1, 2, 2, 1}, true, false},
    {2, 5, 6, 3, 5, 3, 1, {0, 2, 1, 0}, false, false},
    {9, 8, 8, 16, 32, 3, 1, 1, true},  // oneDNN supports it
    {5, 9, 9, 32, 16, 3, 2, 1},
    {5, 8, 8, 16, 16, 3, 2, {0, 0, 1, 1}, true, false},
    {3, 12, 12, 3, 64, 5, 1, 2, true},
    {7, 28, 28, 1, 64, 3, 1, 1},  // ResNet-18's
    {5, 14, 14, 32, 64, 1, 2, 0, false, false},
    {1, 28, 28, 32, 32, 3, 1, 1},  // Winograd supports it
    {3, 15, 13, 32, 48, 3, 1, 0, true},
    {25, 3, 4, 48, 32, 3, 1, 1, true, false},
    {2, 14, 14, 32, 32, 3, 1, {0, 1, 1, 0}},      // asymmetric padding, Winograd
    {140, 8, 8, 32, 32, 3, 1, 1, true},           // several slices
    {9, 7, 5, 64, 96, 3, 1, {2, 0, 1, 2}, true},  // Winograd in bf16
    {1, 17, 15, 96, 32, 3, 1, 0, false, false},
    {270, 6, 6, 16, 16, 3, 1, 1},
};

struct Path {
  std::string name;
  bool own;
  Format format;
  int threads;
  DType dtype = DType::f32;
  bool winograd = true;
};

std::vector<Path> paths(const Conv2dCase& c) {
  std::vector<Format> formats = {{}};
  for (const int lanes : {8, 16}) formats.push_back(Format::batch_interleaved(lanes));
  for (const int block : {8, 16})
    if (c.in % block == 0) formats.push_back(Format::blocked_channels(block));
  const char* kinds[] = {"dense", "lanes", "channels"};
  std::vector<Path> all;
  for (const int threads : {1, 2})
    for (const Format format : formats) {
      const std::string where =
          fmt::format("{} {}, {} threads", kinds[static_cast<int>(format.kind)], format.block, threads);
      if (format.kind == Format::Kind::batch_interleaved) all.push_back({"own, " + where, true, format, threads});
      all.push_back({"oneDNN, " + where, false, format, threads});
      if (dnnl_offers_bf16()) {
        all.push_back({"in bf16, " + where, false, format, threads, DType::bf16});
        all.push_back({"oneDNN in bf16 directly, " + where, false, format, threads, DType::bf16, false});
      }
      all.push_back({"oneDNN directly, " + where, false, format, threads, DType::f32, false});
    }
  return all;
}

std::unique_ptr<Conv2d> make(const Path& path, const Workers& workers, const Conv2dDesc& desc, int64_t n) {
  const int64_t sizes[] = {n, n + 1};
  omp_set_num_threads(workers.threads);
  if (path.own) return make_lane_conv2d(workers, desc);
  return make_dnnl_conv2d(workers, {path.dtype, path.winograd, nullptr}, desc, sizes);
}

class Conv2dTest : public ::testing::TestWithParam<Conv2dCase> {};

TEST_P(Conv2dTest, AgreesWithTheReference) {
  const Conv2dCase c = GetParam();
  const auto device = make_cpu_device();
  Conv2dDesc desc{.input = {c.h, c.w, c.in},
                  .input_format = {},
                  .out_channels = c.out,
                  .window = {c.kernel, c.stride, c.padding},
                  .bias = c.bias,
                  .relu = c.relu};
  const auto by_reference = [&](DType dtype) {
    const Values weights = random_values(c.out * c.kernel * c.kernel * c.in, 2);
    return Expected(*device, *make_reference_ops(*device)->conv2d(desc, {}), {c.n, desc.input},
                    {c.n, conv2d_output(desc)}, rounded(weights, dtype), c.bias, dtype);
  };
  const Expected in_f32 = by_reference(DType::f32), in_bf16 = by_reference(DType::bf16);
  for (const Path& path : paths(c)) {
    SCOPED_TRACE(path.name);
    const Expected& e = path.dtype == DType::f32 ? in_f32 : in_bf16;
    desc.input_format = path.format;
    // Winograd in bf16 rounds its transformed inputs.
    const bool coarse = path.dtype == DType::bf16 && path.winograd && suits_bf16_winograd(desc, c.n);
    const auto expect_rounded = [&](const Values& actual, const Values& expected, const char* what) {
      coarse ? expect_close(actual, expected, what, 1e-2) : expect_close(actual, expected, path.dtype, what);
    };
    const auto conv = make(path, Workers{*device, path.threads}, desc, c.n);
    const Format format = conv->output_format();
    Owned ax(*device, e.in, path.format, e.x, path.dtype), ay(e.out, format, path.dtype),
        ady(*device, e.out, format, e.dy, path.dtype), adx(e.in, path.format, path.dtype);
    const Values dw0 = random_values(e.w.size(), 5), db0 = random_values(c.out, 6);
    Values adw(e.w.size(), NAN), adb(c.out, NAN), sum_dw = dw0, sum_db = db0;
    conv->bind(e.w.data(), c.bias ? e.b.data() : nullptr);
    conv->forward(ax.tensor(), ay.tensor());
    expect_rounded(ay.dense(*device), e.y, "y");
    // Rounding decides the sign of a y near 0, so the gradients use the reference's y.
    Owned y(*device, e.out, format, e.y, path.dtype);
    conv->backward_weight(ax.tensor(), y.tensor(), ady.tensor(), adw.data(), c.bias ? adb.data() : nullptr,
                          Gradient::overwrite);
    conv->backward_input(ady.tensor(), adx.tensor());
    expect_close(ady.dense(*device), e.masked, "masked dy");
    expect_close(adw, e.dw, "dweight");
    if (c.bias) expect_close(adb, e.db, "dbias");
    expect_rounded(adx.dense(*device), e.dx, "dx");
    expect_padding_zero(adx, "dx");

    conv->backward_weight(ax.tensor(), y.tensor(), ady.tensor(), sum_dw.data(), c.bias ? sum_db.data() : nullptr,
                          Gradient::add);
    Values wanted_dw = e.dw, wanted_db = e.db;
    for (size_t i = 0; i < e.w.size(); ++i) wanted_dw[i] += dw0[i];
    for (int64_t i = 0; i < c.out; ++i) wanted_db[i] += db0[i];
    expect_close(sum_dw, wanted_dw, "dweight added");
    if (c.bias) expect_close(sum_db, wanted_db, "dbias added");
  }
}

std::string name_of_case(const ::testing::TestParamInfo<Conv2dCase>& tested) {
  const Conv2dCase& c = tested.param;
  const auto& [top, left, bottom, right] = c.padding;
  return fmt::format("n{}_{}x{}x{}_o{}_k{}_s{}_p{}{}{}{}{}{}", c.n, c.h, c.w, c.in, c.out, c.kernel, c.stride, top,
                     left, bottom, right, c.relu ? "_relu" : "", c.bias ? "" : "_nobias");
}

INSTANTIATE_TEST_SUITE_P(, Conv2dTest, ::testing::ValuesIn(kConv2dCases), name_of_case);

TEST(Conv2dPlan, RefusesUndeclaredBatchSizes) {
  const auto device = make_cpu_device();
  const Conv2dDesc desc{.input = {8, 8, 16}, .input_format = {}, .out_channels = 16, .window = {3, 1, 1}};
  const int64_t sizes[] = {4};
  const auto conv = make_dnnl_conv2d(Workers{*device, 1}, {}, desc, sizes);
  Owned x({3, {8, 8, 16}}, {}), y({3, {8, 8, 16}}, conv->output_format());
  EXPECT_THROW(conv->forward(x.tensor(), y.tensor()), Error);
}

TEST(Conv2dPlan, PicksOwnKernelsForLeNetAndOneDnnForWideLayers) {
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

TEST(Conv2dPlan, PicksOneDnnForEveryConvolutionInBf16) {
  if (!dnnl_offers_bf16()) GTEST_SKIP() << "this processor cannot convolve in bf16";
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {.precision = Precision::bf16});
  const Conv2dDesc lenet{.input = {28, 28, 1}, .input_format = {}, .out_channels = 20, .window = {3}};
  const int64_t sizes[] = {128};
  EXPECT_EQ(ops->input_format(&lenet, sizes), Format{});
  EXPECT_EQ(ops->conv2d(lenet, sizes)->output_format().kind, Format::Kind::blocked_channels);
}

TEST(Conv2dPlan, PicksWinogradForWideLayersOfStrideOneWithEnoughTiles) {
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

// Two batch sizes share the packed weights. The scratch memory moves when another convolution needs more.
TEST(Conv2dPlan, UsesTheLastBoundWeightsAtEveryBatchSize) {
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {});
  const Conv2dDesc desc{.input = {6, 6, 32},
                        .input_format = Format::blocked_channels(16),
                        .out_channels = 32,
                        .window = {3, 1, 1},
                        .bias = false};
  const int64_t sizes[] = {1, 12}, larger[] = {40};
  const auto conv = ops->conv2d(desc, sizes), other = ops->conv2d(desc, larger);
  const auto reference_ops = make_reference_ops(*device);
  const auto reference = reference_ops->conv2d(desc, {});
  for (const uint64_t seed : {1, 2})
    for (const int64_t n : sizes) {
      SCOPED_TRACE(fmt::format("weights {}, {} samples", seed, n));
      const Values w = random_values(32 * 32 * 9, seed), x = random_values(n * 6 * 6 * 32, 3);
      const Shape shape{n, desc.input};
      Owned rx(*device, shape, {}, x), ry(shape, {}), rdx(shape, {});
      Owned ax(*device, shape, desc.input_format, x), ay(shape, conv->output_format()), adx(shape, desc.input_format);
      Owned ady(*device, shape, conv->output_format(), x);
      reference->bind(w.data(), nullptr);
      conv->bind(w.data(), nullptr);
      reference->forward(rx.tensor(), ry.tensor());
      reference->backward_input(rx.tensor(), rdx.tensor());
      conv->forward(ax.tensor(), ay.tensor());
      conv->backward_input(ady.tensor(), adx.tensor());
      expect_close(ay.dense(*device), ry.memory, "y");
      expect_close(adx.dense(*device), rdx.memory, "dx");
    }
}

TEST(Conv2dPlan, PollsTheDeviceBetweenSlices) {
  const auto device = make_cpu_device();
  int polls = 0;
  device->set_poll([&] { ++polls; });
  const Conv2dDesc desc{.input = {32, 32, 32},
                        .input_format = Format::blocked_channels(16),
                        .out_channels = 32,
                        .window = {3, 1, 1},
                        .bias = false};
  const int64_t sizes[] = {20};
  const auto conv = make_dnnl_conv2d(Workers{*device, 1}, {}, desc, sizes);
  const Values w(32 * 32 * 9, 1.0f);
  conv->bind(w.data(), nullptr);
  Owned x({20, desc.input}, desc.input_format), y({20, desc.input}, conv->output_format());
  conv->forward(x.tensor(), y.tensor());
  EXPECT_GE(polls, 1 + 3);  // one for the weights, three for slices of 8, 8 and 4 samples
}

TEST(Conv2dPlan, PollsTheDeviceWhileItComputes) {
  const auto device = make_cpu_device();
  int polls = 0;
  device->set_poll([&] { ++polls; });
  const Conv2dDesc desc{
      .input = {9, 9, 3}, .input_format = Format::batch_interleaved(8), .out_channels = 5, .window = {3}};
  const auto conv = make_lane_conv2d(Workers{*device, 1}, desc);
  const Values w(5 * 27, 1.0f), b(5);
  conv->bind(w.data(), b.data());
  Owned x({16, desc.input}, Format::batch_interleaved(8)), y({16, conv2d_output(desc)}, Format::batch_interleaved(8));
  conv->forward(x.tensor(), y.tensor());
  EXPECT_EQ(polls, 2 * 7);  // one per row of each block
}

}  // namespace
}  // namespace ddp::testing
