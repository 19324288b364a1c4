#include "ops/cpu/conv2d.h"

#include "core/error.h"
#include "ops/cpu/lane_kernels.h"
#include "tests/ops/rig.h"

#include <fmt/format.h>
#include <omp.h>

#include <string>

namespace ddp::testing {
namespace {

struct Case {
  int64_t n, h, w, in, out, kernel, stride = 1, padding = 0;
  bool relu = false;
};

const Case kCases[] = {
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
    {9, 8, 8, 16, 32, 3, 1, 1, true},  // suits oneDNN
    {5, 9, 9, 32, 16, 3, 2, 1},
    {3, 12, 12, 3, 64, 5, 1, 2, true},
};

struct Path {
  std::string name;
  bool own;
  Format format;
  int threads;
};

std::vector<Path> paths(const Case& c) {
  std::vector<Path> all;
  for (const int threads : {1, 2}) {
    for (int lanes = 8; lanes <= widest_lanes(); lanes *= 2) {
      all.push_back({fmt::format("own, lanes {}, {} threads", lanes, threads), true, Format::lanes(lanes), threads});
      all.push_back(
          {fmt::format("oneDNN, lanes {}, {} threads", lanes, threads), false, Format::lanes(lanes), threads});
    }
    all.push_back({fmt::format("oneDNN, dense, {} threads", threads), false, {}, threads});
    if (c.in % 8 == 0)
      all.push_back({fmt::format("oneDNN, channels 8, {} threads", threads), false, Format::channels(8), threads});
    if (c.in % 16 == 0)
      all.push_back({fmt::format("oneDNN, channels 16, {} threads", threads), false, Format::channels(16), threads});
  }
  return all;
}

std::unique_ptr<Conv2d> make(const Path& path, const Workers& workers, const Conv2dDesc& desc, int64_t n) {
  const int64_t sizes[] = {n, n + 1};
  omp_set_num_threads(workers.threads);
  return path.own ? make_lane_conv2d(workers, desc) : make_dnnl_conv2d(workers, desc, sizes);
}

class Conv2dTest : public ::testing::TestWithParam<Case> {};

TEST_P(Conv2dTest, AgreesWithTheReference) {
  const Case c = GetParam();
  const auto device = make_cpu_device();
  const auto reference_ops = make_reference_ops(*device);
  Conv2dDesc desc{.input = {c.h, c.w, c.in},
                  .input_format = {},
                  .out_channels = c.out,
                  .window = {c.kernel, c.stride, c.padding},
                  .relu = c.relu};
  const Shape in{c.n, desc.input}, out{c.n, conv2d_output(desc)};
  const int64_t weights = c.out * c.kernel * c.kernel * c.in;
  const Values x = random_values(in.elements(), 1), w = random_values(weights, 2), b = random_values(c.out, 3),
               dy = random_values(out.elements(), 4), dw0 = random_values(weights, 5), db0 = random_values(c.out, 6);

  Owned rx(*device, in, {}, x), ry(out, {}), rdy(*device, out, {}, dy), rdx(in, {});
  Values rdw(weights), rdb(c.out);
  const auto reference = reference_ops->conv2d(desc, {});
  reference->bind(w.data(), b.data());
  reference->forward(rx.tensor(), ry.tensor());
  reference->backward_weight(rx.tensor(), ry.tensor(), rdy.tensor(), rdw.data(), rdb.data(), Gradient::overwrite);
  reference->backward_input(rdy.tensor(), rdx.tensor());

  for (const Path& path : paths(c)) {
    SCOPED_TRACE(path.name);
    desc.input_format = path.format;
    const auto conv = make(path, Workers{*device, path.threads}, desc, c.n);
    const Format format = conv->output_format();
    Owned ax(*device, in, path.format, x), ay(out, format), ady(*device, out, format, dy), adx(in, path.format);
    Values adw(weights, NAN), adb(c.out, NAN), sum_dw = dw0, sum_db = db0;
    conv->bind(w.data(), b.data());
    conv->forward(ax.tensor(), ay.tensor());
    expect_close(ay.dense(*device), ry.memory, "y");
    // The sign of a y near 0 is rounding's: judge the gradients by the reference's y.
    Owned y(*device, out, format, ry.memory);
    conv->backward_weight(ax.tensor(), y.tensor(), ady.tensor(), adw.data(), adb.data(), Gradient::overwrite);
    conv->backward_input(ady.tensor(), adx.tensor());
    expect_close(ady.dense(*device), rdy.memory, "masked dy");
    expect_close(adw, rdw, "dweight");
    expect_close(adb, rdb, "dbias");
    expect_close(adx.dense(*device), rdx.memory, "dx");
    expect_padding_zero(adx, "dx");

    conv->backward_weight(ax.tensor(), y.tensor(), ady.tensor(), sum_dw.data(), sum_db.data(), Gradient::add);
    Values wanted_dw = rdw, wanted_db = rdb;
    for (int64_t i = 0; i < weights; ++i) wanted_dw[i] += dw0[i];
    for (int64_t i = 0; i < c.out; ++i) wanted_db[i] += db0[i];
    expect_close(sum_dw, wanted_dw, "dweight added");
    expect_close(sum_db, wanted_db, "dbias added");
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Conv2dTest, ::testing::ValuesIn(kCases), [](const auto& tested) {
  const Case& c = tested.param;
  return fmt::format("n{}_{}x{}x{}_o{}_k{}_s{}_p{}{}", c.n, c.h, c.w, c.in, c.out, c.kernel, c.stride, c.padding,
                     c.relu ? "_relu" : "");
});

TEST(Conv2dPlan, RefusesABatchSizeThatWasNotDeclaredToOneDnn) {
  const auto device = make_cpu_device();
  const Conv2dDesc desc{.input = {8, 8, 16}, .input_format = {}, .out_channels = 16, .window = {3, 1, 1}};
  const int64_t sizes[] = {4};
  const auto conv = make_dnnl_conv2d(Workers{*device, 1}, desc, sizes);
  Owned x({3, {8, 8, 16}}, {}), y({3, {8, 8, 16}}, conv->output_format());
  EXPECT_THROW(conv->forward(x.tensor(), y.tensor()), Error);
}

TEST(Conv2dPlan, PicksOwnKernelsForLeNetAndOneDnnForWideLayers) {
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, 1);
  const Conv2dDesc lenet{.input = {28, 28, 1}, .input_format = {}, .out_channels = 20, .window = {3}};
  const Conv2dDesc wide{.input = {28, 28, 3}, .input_format = {}, .out_channels = 64, .window = {3}};
  const int64_t eight[] = {8, 3}, many[] = {128, 96};
  EXPECT_EQ(ops->input_format(&lenet, eight), Format::lanes(8));
  EXPECT_EQ(ops->input_format(&lenet, many), Format::lanes(widest_lanes()));
  EXPECT_EQ(ops->input_format(&wide, many), Format{});
  EXPECT_EQ(ops->input_format(nullptr, many), Format{});
}

TEST(Conv2dPlan, PollsTheDeviceWhileItComputes) {
  const auto device = make_cpu_device();
  int polls = 0;
  device->set_poll([&] { ++polls; });
  const Conv2dDesc desc{.input = {9, 9, 3}, .input_format = Format::lanes(8), .out_channels = 5, .window = {3}};
  const auto conv = make_lane_conv2d(Workers{*device, 1}, desc);
  const Values w(5 * 27, 1.0f), b(5);
  conv->bind(w.data(), b.data());
  Owned x({16, desc.input}, Format::lanes(8)), y({16, conv2d_output(desc)}, Format::lanes(8));
  conv->forward(x.tensor(), y.tensor());
  EXPECT_EQ(polls, 2 * 7);  // once for each row of each block
}

}  // namespace
}  // namespace ddp::testing
