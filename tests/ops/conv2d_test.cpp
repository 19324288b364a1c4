#include "tests/ops/layer.h"

#include <span>

namespace ddp::testing {
namespace {

struct Conv2dCase {
  int64_t n, h, w, in, out, kernel, stride = 1;
  Padding padding = {};
  bool relu = false, bias = true;
  On on = On::every;
  bool bias_gradient = true;
};

const Conv2dCase kConv2dCases[] = {
    {17, 9, 9, 20, 50, 5, 1, 0, true},
    {128, 6, 6, 3, 7, 3},
    {1, 5, 5, 1, 1, 5},
    {5, 9, 7, 3, 11, 1},
    {5, 9, 7, 4, 6, 1, 2},
    {8, 11, 10, 6, 16, 5, 1, 2, true},
    {17, 12, 9, 3, 13, 3, 2, 1, true},
    {3, 10, 10, 2, 4, 7, 2, 3},
    {4, 4, 4, 3, 5, 3, 1, 2},
    {6, 3, 3, 2, 3, 5, 1, 2},
    {3, 12, 12, 3, 64, 5, 1, 2, true},
    {9, 6, 8, 2, 12, 4, 1, {1, 2, 2, 1}, true, false},  // asymmetric padding
    {3, 9, 7, 3, 17, 3, 2, {0, 1, 2, 0}, false, false},
    {1, 8, 8, 8, 16, 2, 1, {0, 0, 1, 1}},
    {6, 9, 7, 3, 11, 3, 1, 1, false, true, On::every, false},  // a batch norm follows

    {8, 28, 28, 1, 20, 3, 1, 0, true, true, On::cpu},  // LeNet's
    {48, 7, 7, 20, 50, 5, 1, 0, true, true, On::cpu},
    {2, 7, 7, 5, 5, 2, 3, 0, false, true, On::cpu},
    {3, 8, 6, 5, 7, 3, 2, {0, 0, 1, 1}, true, true, On::cpu},  // "same" in Keras
    {4, 9, 7, 3, 6, 3, 2, {1, 0, 2, 1}, false, true, On::cpu},
    {2, 5, 6, 3, 5, 3, 1, {0, 2, 1, 0}, false, false, On::cpu},
    {9, 8, 8, 16, 32, 3, 1, 1, true, true, On::cpu},  // oneDNN supports it
    {5, 9, 9, 32, 16, 3, 2, 1, false, true, On::cpu},
    {2, 28, 27, 32, 32, 3, 2, 1, true, false, On::cpu},  // Winograd's tiles of 7 x 7 with stride 2, 14 x 14 outputs
    {3, 26, 25, 32, 64, 3, 2, {1, 1, 1, 2}, false, true, On::cpu},  // 13 x 13
    {6, 14, 16, 32, 64, 3, 2, {1, 1, 0, 0}, false, true, On::cpu},  // and of 4 x 4: 7 x 8 outputs
    {70, 6, 7, 64, 32, 3, 2, {1, 1, 2, 1}, false, true, On::cpu},
    {5, 8, 8, 16, 16, 3, 2, {0, 0, 1, 1}, true, false, On::cpu},
    {7, 28, 28, 1, 64, 3, 1, 1, false, true, On::cpu},  // ResNet-18's
    {5, 14, 14, 32, 64, 1, 2, 0, false, false, On::cpu},
    {1, 28, 28, 32, 32, 3, 1, 1, false, true, On::cpu},  // Winograd supports it, in tiles of 7 x 7
    {3, 15, 13, 32, 48, 3, 1, 0, true, true, On::cpu},
    {25, 3, 4, 48, 32, 3, 1, 1, true, false, On::cpu},
    {2, 14, 14, 32, 32, 3, 1, {0, 1, 1, 0}, false, true, On::cpu},  // asymmetric padding, Winograd
    {3, 14, 14, 32, 32, 3, 1, 1, false, true, On::cpu, false},
    {140, 8, 8, 32, 32, 3, 1, 1, true, true, On::cpu},           // several slices
    {9, 7, 5, 64, 96, 3, 1, {2, 0, 1, 2}, true, true, On::cpu},  // Winograd in bf16
    {1, 17, 15, 96, 32, 3, 1, 0, false, false, On::cpu},
    {270, 6, 6, 16, 16, 3, 1, 1, false, true, On::cpu},
    {64, 1, 1, 32, 32, 3, 1, 1, false, true, On::cpu},  // images smaller than a tile
    {70, 2, 3, 32, 64, 3, 1, 2, false, true, On::cpu},
    {70, 2, 2, 32, 32, 3, 1, 1, false, true, On::cpu},  // in bf16, tiles of 2 but not of 4
    {130, 5, 4, 32, 32, 3, 1, 0, true, true, On::cpu},
    {9, 8, 9, 96, 64, 1, 1, 0, true, true, On::cpu},  // weight gradients by the direct algorithm
    {11, 11, 10, 32, 64, 1, 2, 0, false, false, On::cpu},
    {13, 11, 10, 64, 32, 3, 2, 1, true, true, On::cpu, false},
    {11, 8, 8, 32, 32, 1, 2, 1, false, true, On::cpu},   // padding of one pixel
    {30, 3, 3, 32, 32, 1, 2, 1, false, true, On::cpu},   // as many outputs as pixels
    {451, 3, 3, 96, 64, 1, 1, 0, false, true, On::cpu},  // an odd number of pixels, several slices of them in f32
    {81, 9, 9, 64, 32, 3, 2, 1, false, true, On::cpu},   // several slices

    {256, 26, 26, 1, 20, 3, 1, 0, true, true, On::gpu},  // LeNet's at full, half and short batch size
    {256, 12, 12, 20, 50, 5, 1, 0, true, true, On::gpu},
    {128, 12, 12, 20, 50, 5, 1, 0, true, true, On::gpu},
    {96, 26, 26, 1, 20, 3, 1, 0, true, true, On::gpu},
    {1, 26, 26, 1, 20, 3, 1, 0, true, true, On::gpu},
    {1, 12, 12, 20, 50, 5, 1, 0, true, true, On::gpu},
    {16, 8, 8, 64, 128, 3, 1, 1, true, true, On::gpu},  // wide
    {9, 8, 8, 128, 128, 3, 1, 1, false, true, On::gpu},
    {9, 8, 8, 64, 128, 3, 1, 1, false, true, On::gpu, false},
    {5, 9, 9, 128, 64, 3, 2, 1, true, true, On::gpu},
    {5, 8, 8, 64, 128, 1, 2, 0, false, true, On::gpu},
    {17, 14, 14, 64, 64, 3, 1, 1, false, false, On::gpu},
    {5, 9, 7, 12, 24, 3, 1, 1, true, false, On::gpu},
    {6, 14, 14, 24, 32, 5, 2, {1, 1, 2, 2}, true, true, On::gpu},
};

std::string name_of(const Conv2dCase& c) {
  const auto& [top, left, bottom, right] = c.padding;
  return fmt::format("n{}_{}x{}x{}_o{}_k{}_s{}_p{}{}{}{}{}{}{}", c.n, c.h, c.w, c.in, c.out, c.kernel, c.stride, top,
                     left, bottom, right, c.relu ? "_relu" : "", c.bias ? "" : "_nobias",
                     c.bias_gradient ? "" : "_nobiasgradient");
}

class Conv2d : public LayerTest<Conv2dCase> {};
INSTANTIATE_TEST_SUITE_P(, Conv2d, on_each_backend(kConv2dCases, convolves), kCaseName);

TEST_P(Conv2d, AgreesWithTheReference) {
  const Conv2dDesc desc{.input = {c.h, c.w, c.in},
                        .input_format = {},
                        .out_channels = c.out,
                        .window = {c.kernel, c.stride, c.padding},
                        .bias = c.bias,
                        .bias_gradient = c.bias_gradient,
                        .relu = c.relu};
  const auto plain = reference->conv2d(desc, {});
  const LayerResults results =
      results_of(*plain, {c.n, desc.input}, {c.n, conv2d_output(desc)},
                 rounded(random_values(c.out * c.kernel * c.kernel * c.in, 2), type),
                 rounded(random_values(c.out, 3), backend.parameters), c.bias, sums_bias(desc));
  each_convolution(*device, backend, desc, c.n, [&](ddp::Conv2d& conv, Format from, const ConvBounds& bounds) {
    expect_agreement(conv, results, from, bounds);
  });
}

struct DenseCase {
  int64_t n, h, w, in, out, groups, kernel, stride = 1;
  Padding padding = {};
  int64_t dilation = 1;
  bool relu = false, bias = true;
  On on = On::every;

  Conv2dDesc desc() const {
    return {.input = {h, w, in},
            .input_format = {},
            .out_channels = out,
            .window = {kernel, stride, padding, dilation},
            .groups = groups,
            .dense = true,
            .bias = bias,
            .relu = relu};
  }
};

const DenseCase kDenseCases[] = {
    {3, 5, 4, 3, 17, 1, 1, 1, 0, 1, true},  // products
    {17, 1, 9, 17, 1, 1, 1},
    {1, 7, 7, 40, 24, 1, 1, 1, 0, 1, false, false},
    {17, 16, 16, 24, 40, 1, 1, 1, 0, 1, true, true, On::cpu},    // several parts of the rows
    {3, 20, 20, 200, 400, 1, 1, 1, 0, 1, false, true, On::cpu},  // several tiles and rounds

    {2, 9, 9, 3, 3, 3, 3, 1, 1, 1, true},  // depthwise
    {3, 7, 7, 40, 40, 40, 5, 1, 2},
    {1, 8, 17, 24, 24, 24, 3, 2, 1, 1, false, false},
    {2, 15, 14, 17, 17, 17, 7, 1, 3, 1, true},
    {3, 3, 4, 40, 40, 40, 7, 1, 3},               // the window is larger than the image
    {2, 11, 30, 48, 48, 48, 5, 2, 2, 1, true},    // several blocks of columns
    {17, 1, 6, 24, 24, 24, 3, 1, 1},              // one row
    {2, 12, 10, 24, 24, 24, 3, 2, {0, 1, 2, 0}},  // asymmetric padding
    {2, 13, 9, 24, 24, 24, 3, 1, 2, 2, true},     // dilation
    {1, 13, 12, 17, 17, 17, 5, 2, 4, 2},          // with a stride that has a common divisor
    {1, 14, 11, 24, 24, 24, 3, 2, 3, 3},          // and without
    {2, 9, 10, 24, 24, 24, 2, 3, 0},              // a stride larger than the window
    {2, 5, 6, 24, 24, 24, 1, 2, 0, 1, true},
    {40, 4, 3, 32, 32, 32, 3, 1, 1, 1, true, true, On::cpu},     // several samples in a part
    {1, 150, 60, 32, 32, 32, 5, 1, 2, 1, false, true, On::cpu},  // several bands of rows
    {2, 20, 21, 16, 16, 16, 7, 2, 3, 1, false, true, On::cpu},

    {3, 9, 9, 3, 16, 1, 3, 2, 1, 1, true},  // neither
    {2, 8, 8, 3, 24, 1, 4, 4, 0},
    {2, 6, 7, 24, 16, 1, 3, 1, 1},
    {3, 9, 8, 16, 32, 1, 1, 2, 0, 1, false, false},
    {2, 9, 10, 16, 24, 1, 3, 1, 2, 2, true},
    {2, 10, 9, 32, 32, 8, 3, 1, 1, 1, true},
    {2, 10, 9, 32, 64, 4, 3, 2, 1, 1, false, false},
    {1, 9, 9, 32, 16, 4, 3, 1, 2, 2},
    {2, 7, 6, 12, 24, 3, 1, 1, 0},
    {2, 6, 5, 8, 16, 8, 3, 1, 1},  // two outputs for each input
    {3, 5, 5, 24, 17, 1, 5, 1, 2, 1, true, true, On::cpu},
    {3, 14, 14, 64, 64, 32, 3, 1, 1, 1, false, false, On::cpu},
};

std::string name_of(const DenseCase& c) {
  const auto& [top, left, bottom, right] = c.padding;
  return fmt::format("n{}_{}x{}x{}_o{}_g{}_k{}_s{}_p{}{}{}{}_d{}{}{}", c.n, c.h, c.w, c.in, c.out, c.groups, c.kernel,
                     c.stride, top, left, bottom, right, c.dilation, c.relu ? "_relu" : "", c.bias ? "" : "_nobias");
}

class DenseConv2d : public LayerTest<DenseCase> {
 protected:
  int64_t weights() const { return c.out * c.kernel * c.kernel * c.in / c.groups; }
};
INSTANTIATE_TEST_SUITE_P(, DenseConv2d, on_each_backend(kDenseCases, convolves), kCaseName);

TEST_P(DenseConv2d, AgreesWithTheReference) {
  const Conv2dDesc desc = c.desc();
  const int64_t sizes[] = {c.n, c.n + 1};
  const auto plain = reference->conv2d(desc, {});
  const LayerResults results =
      results_of(*plain, {c.n, desc.input}, {c.n, conv2d_output(desc)}, rounded(random_values(weights(), 2), type),
                 rounded(random_values(c.out, 3), backend.parameters), c.bias, sums_bias(desc));
  each_setup({{}}, {0}, [&] {
    const auto conv = ops->conv2d(desc, sizes);
    EXPECT_EQ(conv->output_format(), Format{});
    expect_agreement(*conv, results, {}, {backend.products});
  });
}

// Where the weights are frozen, the other results have the same bits.
class Conv2dFrozen : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(, Conv2dFrozen, ::testing::ValuesIn(backends_where(is_compared, convolves)), kBackendName);

TEST_P(Conv2dFrozen, ComputesAllButTheWeightGradient) {
  Backend same = backend;
  same.deterministic = true;  // else cuDNN measures its engines for each convolution
  struct Tested {
    int64_t channels, stride, n;
  };
  for (const auto& [channels, stride, n] : {Tested{3, 1, 5}, {32, 1, 5}, {32, 2, 11}})
    for (const bool relu : {false, true})
      for (const bool bias_gradient : {false, true}) {
        Conv2dDesc desc{.input = {9, 9, channels},
                        .input_format = {},
                        .out_channels = 2 * channels,
                        .window = {3, stride, 1},
                        .bias_gradient = bias_gradient,
                        .relu = relu};
        const Shape in{n, desc.input}, out{n, conv2d_output(desc)};
        const Values w = rounded(random_values(18 * channels * channels, 1), type);
        const WeightsOnDevice aw(*device, w), ab(*device, Values(2 * channels, 0.1f));
        std::vector<std::vector<Values>> whole, frozen;  // of each implementation
        for (const bool trains : {true, false}) {
          desc.weight_gradient = trains;
          each_convolution(*device, same, desc, n, [&](ddp::Conv2d& conv, Format from, const ConvBounds&) {
            const Format to = conv.output_format();
            const TensorOnDevice x(*device, in, from, type, random(in.elements(), 2)), y(*device, out, to, type),
                dy(*device, out, to, type, random(out.elements(), 3)), dx(*device, in, from, type);
            const auto dw = on_device(Values(std::ssize(w))), db = on_device(Values(2 * channels));
            conv.bind(aw.data(), ab.data());
            conv.forward(x.tensor(), y.tensor());
            conv.backward_weight(x.tensor(), y.tensor(), dy.tensor(), trains ? dw.data() : nullptr,
                                 bias_gradient ? db.data() : nullptr, Gradient::overwrite);
            conv.backward_input(dy.tensor(), dx.tensor());
            (trains ? whole : frozen).push_back({dy.values(), dx.values(), db.values()});
          });
        }
        EXPECT_EQ(frozen, whole) << channels << " channels, stride " << stride << ", ReLU " << relu << ", bias "
                                 << bias_gradient;
      }
}

class Conv2dNan : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(, Conv2dNan, ::testing::ValuesIn(backends_where(is_compared, convolves)), kBackendName);

// Winograd's algorithm makes a whole tile NaN. cuDNN does not say what its ReLU makes of NaN.
TEST_P(Conv2dNan, StaysNan) {
  struct Tested {
    int64_t extent, in, out, padding, n;
  };
  for (const auto& [extent, in, out, padding, n] :
       {Tested{9, 3, 7, 0, 2}, {10, 16, 32, 1, 2}, {28, 32, 32, 1, 2}, {7, 32, 32, 1, 6}}) {
    const Conv2dDesc desc{.input = {extent, extent, in},
                          .input_format = {},
                          .out_channels = out,
                          .window = {3, 1, padding},
                          .relu = !backend.cuda()};
    const Shape shape{n, desc.input}, of_y{n, conv2d_output(desc)};
    const int64_t sample = of_y.image.elements(), weights = out * 9 * in;
    Values x = random(shape.elements(), 1), expected(of_y.elements());
    x[desc.input.elements() + (4 * extent + 4) * in + 1] = NAN;
    const Values w = rounded(random_values(weights, 2), type), b(out);
    const auto plain = reference->conv2d(desc, {});
    plain->bind({w.data()}, {b.data()});
    plain->forward(on_host(x, shape), on_host(expected, of_y));
    EXPECT_EQ(count_nans(expected), 9 * out);
    const WeightsOnDevice aw(*device, w), ab(*device, b);
    each_convolution(*device, backend, desc, n, [&](ddp::Conv2d& conv, Format from, const ConvBounds&) {
      const Format to = conv.output_format();
      const TensorOnDevice ax(*device, shape, from, type, x), ay(*device, of_y, to, type),
          ady(*device, of_y, to, type, Values(of_y.elements(), 1));
      const auto dw = unwritten(weights), db = unwritten(out);
      conv.bind(aw.data(), ab.data());
      conv.forward(ax.tensor(), ay.tensor());
      conv.backward_weight(ax.tensor(), ay.tensor(), ady.tensor(), dw.data(), db.data(), Gradient::overwrite);
      const Values y = ay.values(), g = ady.values();
      EXPECT_EQ(count_nans({y.begin(), y.begin() + sample}), 0) << "another sample";
      for (int64_t i = 0; i < of_y.elements(); ++i) {
        if (!std::isnan(expected[i])) continue;
        ASSERT_TRUE(std::isnan(y[i])) << i;
        ASSERT_EQ(g[i], 1) << i;
      }
      EXPECT_GE(count_nans(dw.values()), 9 * out);
    });
  }
}

// Two plans share the scratch memory, which moves when the second one needs more.
class Conv2dPlan : public BackendTest {
 protected:
  // Dense, and in the last format of the backend, its most special one.
  void expect_last_bound_weights(Conv2dDesc desc, std::span<const int64_t> sizes, int64_t larger) {
    const Format last = backend.formats.back();
    expect_results_in(desc, sizes, larger);
    if (last == Format{} || desc.input.c % last.block != 0) return;
    desc.input_format = last;
    expect_results_in(desc, sizes, larger);
  }

 private:
  void expect_results_in(const Conv2dDesc& desc, std::span<const int64_t> sizes, int64_t larger) {
    SCOPED_TRACE(text_of(desc.input_format));
    const auto plain = reference->conv2d(desc, {});
    const bool coarse = backend.kind == Backend::Kind::cpu && desc.input_format != Format{};
    const ConvBounds bounds = !coarse               ? ConvBounds{backend.products}
                              : type == DType::bf16 ? kBf16Winograd
                                                    : kF32Winograd;
    const auto conv = ops->conv2d(desc, sizes), other = ops->conv2d(desc, {&larger, 1});
    const auto expect_results = [&](int64_t n, uint64_t seed) {
      SCOPED_TRACE(fmt::format("{} samples, weights {}", n, seed));
      const Shape in{n, desc.input}, out{n, conv2d_output(desc)};
      const int64_t weights = desc.out_channels * desc.window.kernel * desc.window.kernel * desc.input.c;
      const Values w = rounded(random_values(weights, seed), type);
      const Values b(desc.out_channels, 0.5f);
      Values x = random(in.elements(), 3), dy = random(out.elements(), 4), y(out.elements()), dx(in.elements());
      plain->bind({w.data()}, {b.data()});
      plain->forward(on_host(x, in), on_host(y, out));
      plain->backward_input(on_host(dy, out), on_host(dx, in));
      Values dw(weights), db(desc.out_channels);
      plain->backward_weight(on_host(x, in), on_host(y, out), on_host(dy, out), dw.data(), db.data(),
                             Gradient::overwrite);
      const WeightsOnDevice aw(*device, w), ab(*device, b);
      const auto adw = unwritten(weights), adb = unwritten(desc.out_channels);
      const TensorOnDevice ax(*device, in, desc.input_format, type, x), ay(*device, out, conv->output_format(), type),
          ady(*device, out, conv->output_format(), type, dy), adx(*device, in, desc.input_format, type);
      conv->bind(aw.data(), ab.data());
      conv->forward(ax.tensor(), ay.tensor());
      conv->backward_weight(ax.tensor(), ay.tensor(), ady.tensor(), adw.data(), adb.data(), Gradient::overwrite);
      conv->backward_input(ady.tensor(), adx.tensor());
      const double summands = static_cast<double>(out.elements() / desc.out_channels),
                   sums = backend.weights + backend.weights_per_root * std::sqrt(summands);
      expect_within(bounds.activations, ay.values(), y, "y");
      expect_within(bounds.activations, adx.values(), dx, "dx");
      expect_within(std::max(sums, bounds.weights), adw.values(), dw, "dweight");
      expect_within(sums, adb.values(), db, "dbias");
    };
    for (const uint64_t seed : {1, 2})
      for (const int64_t n : sizes) expect_results(n, seed);
  }
};
INSTANTIATE_TEST_SUITE_P(, Conv2dPlan, ::testing::ValuesIn(backends_where(is_compared, convolves)), kBackendName);

TEST_P(Conv2dPlan, UsesTheLastBoundWeightsAtEveryBatchSize) {
  const int64_t few[] = {1, 12}, many[] = {128, 96, 3, 1};
  expect_last_bound_weights({.input = {6, 6, 32}, .input_format = {}, .out_channels = 32, .window = {3, 1, 1}}, few,
                            40);
  const int64_t one_direct[] = {1, 30};  // the weight gradient of one sample is oneDNN's
  expect_last_bound_weights({.input = {5, 5, 32}, .input_format = {}, .out_channels = 64, .window = {3, 2, 1}},
                            one_direct, 40);
  if (backend.cuda())
    expect_last_bound_weights({.input = {12, 12, 20}, .input_format = {}, .out_channels = 50, .window = {5}}, many,
                              129);
}

}  // namespace
}  // namespace ddp::testing
