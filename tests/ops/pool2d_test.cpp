#include "tests/ops/backend.h"

namespace ddp::testing {
namespace {

using PoolKind = Pool2dDesc::Kind;

struct Pool2dCase {
  PoolKind kind;
  int64_t n, h, w, c;
  Window2d window = {};
  On on = On::every;
  int64_t out_h = 1, out_w = 1;  // of an adaptive average

  Pool2dDesc desc(Format format) const { return {kind, {h, w, c}, format, window, out_h, out_w}; }
};

// LeNet's two poolings, edges that no window covers, windows with gaps, and overlapping windows.
const Pool2dCase kPool2dCases[] = {{PoolKind::average, 5, 26, 26, 20, {2, 2}},
                                   {PoolKind::average, 3, 9, 9, 50, {2, 2}},
                                   {PoolKind::average, 17, 9, 9, 16, {2, 2}},
                                   {PoolKind::average, 1, 1, 1, 1, {1, 1}},
                                   {PoolKind::average, 1, 4, 4, 8, {4, 4}},
                                   {PoolKind::average, 2, 5, 6, 7, {2, 2}},
                                   {PoolKind::average, 2, 9, 9, 5, {2, 3}},
                                   {PoolKind::average, 2, 12, 7, 4, {3, 5}},
                                   {PoolKind::average, 3, 7, 8, 3, {3, 2}},
                                   {PoolKind::average, 2, 9, 10, 16, {3, 1}},
                                   {PoolKind::average, 1, 11, 9, 12, {5, 2}},
                                   {PoolKind::average, 1, 8, 8, 6, {4, 3}},
                                   {PoolKind::average, 1, 740, 733, 1, {1, 1}, On::cuda},  // larger than the grid
                                   {PoolKind::average, 1, 740, 733, 1, {2, 1}, On::cuda},
                                   {PoolKind::maximum, 5, 26, 26, 20, {2, 2}, On::cpu},
                                   {PoolKind::maximum, 17, 8, 9, 16, {3, 2, 1}},
                                   {PoolKind::maximum, 3, 8, 8, 12, {2, 2}},
                                   {PoolKind::maximum, 1, 1, 1, 1, {1, 1}},
                                   {PoolKind::maximum, 1, 1, 1, 3, {3, 2, 1}},
                                   {PoolKind::maximum, 2, 5, 6, 17, {2, 2}},
                                   {PoolKind::maximum, 2, 7, 7, 64, {3, 2, 1}},
                                   {PoolKind::maximum, 1, 14, 14, 1, {3, 2, 1}},
                                   {PoolKind::maximum, 3, 7, 8, 3, {3, 1, 1}},
                                   {PoolKind::maximum, 2, 9, 7, 3, {3, 1, 1}},
                                   {PoolKind::maximum, 2, 9, 8, 5, {2, 3}},
                                   {PoolKind::maximum, 2, 9, 8, 33, {2, 3, {0, 0, 1, 1}}},
                                   {PoolKind::maximum, 2, 8, 6, 5, {3, 2, {0, 1, 1, 0}}},
                                   {PoolKind::maximum, 2, 6, 7, 8, {3, 2, {0, 1, 2, 1}}},
                                   {PoolKind::maximum, 2, 7, 6, 16, {2, 2, {1, 0, 0, 1}}},
                                   {PoolKind::maximum, 1, 8, 5, 4, {3, 3, {2, 1, 1, 2}}},
                                   {PoolKind::maximum, 1, 6, 6, 2, {5, 1, 2}},
                                   {PoolKind::maximum, 9, 5, 5, 24, {5, 1, 2}},
                                   {PoolKind::maximum, 1, 740, 733, 1, {2, 2}, On::cuda},
                                   {PoolKind::maximum, 1, 740, 733, 1, {2, 1}, On::cuda},
                                   {PoolKind::global_average, 1, 1, 1, 1},
                                   {PoolKind::global_average, 5, 4, 4, 64},
                                   {PoolKind::global_average, 17, 4, 4, 32},
                                   {PoolKind::global_average, 5, 7, 6, 20},
                                   {PoolKind::global_average, 3, 7, 5, 17},
                                   {PoolKind::global_average, 2, 3, 8, 12},
                                   {PoolKind::global_average, 700, 2, 1, 3, {}, On::cuda},
                                   {PoolKind::adaptive_average, 5, 7, 6, 20, {}, On::every, 3, 4},
                                   {PoolKind::adaptive_average, 3, 1, 1, 17, {}, On::every, 7, 7},
                                   {PoolKind::adaptive_average, 9, 2, 5, 3, {}, On::every, 5, 3},
                                   {PoolKind::adaptive_average, 2, 4, 4, 8, {}, On::every, 4, 4},
                                   {PoolKind::adaptive_average, 2, 13, 8, 64, {}, On::every, 6, 1},
                                   {PoolKind::adaptive_average, 1, 700, 800, 1, {}, On::cuda, 699, 800}};

std::string name_of(const Pool2dCase& c) {
  const char* const kinds[] = {"average", "maximum", "global", "adaptive"};
  const Padding& p = c.window.padding;
  if (c.kind == PoolKind::adaptive_average)
    return fmt::format("adaptive_n{}_{}x{}x{}_to_{}x{}", c.n, c.h, c.w, c.c, c.out_h, c.out_w);
  return fmt::format("{}_n{}_{}x{}x{}_k{}_s{}_p{}{}{}{}", kinds[static_cast<int>(c.kind)], c.n, c.h, c.w, c.c,
                     c.window.kernel, c.window.stride, p.top, p.left, p.bottom, p.right);
}

class Pool2d : public CaseTest<Pool2dCase> {
 protected:
  void expect_agreement(Values x) {
    const Pool2dDesc plain = c.desc({});
    const Shape in{c.n, plain.input}, out{c.n, pool2d_output(plain)};
    const bool reads = c.kind == PoolKind::maximum;  // backward reads x and y
    Values y(out.elements()), dy = random(out.elements(), 2), dx(in.elements());
    const auto expected = reference->pool2d(plain, {});
    expected->forward(on_host(x, in), on_host(y, out));
    expected->backward(on_host(x, in), on_host(y, out), on_host(dy, out), on_host(dx, in));
    const Values comparable_y = comparable(y);
    const int64_t sizes[] = {c.n};
    each_setup(backend.formats, backend.offsets, [&] {
      const auto pool = ops->pool2d(c.desc(format), sizes);
      const TensorOnDevice ax = filled(in, x), ay = unwritten(out), ady = filled(out, dy), adx = unwritten(in);
      pool->forward(ax.tensor(), ay.tensor());
      pool->backward(reads ? ax.tensor() : Tensor{nullptr, in, format, type},
                     reads ? ay.tensor() : Tensor{nullptr, out, format, type}, ady.tensor(), adx.tensor());
      const auto actual_y = ay.loaded(), actual_dx = adx.loaded();
      if (reads)
        EXPECT_EQ(comparable(actual_y.dense), comparable_y);
      else
        expect_activations(actual_y.dense, y, "y");
      expect_activations(actual_dx.dense, dx, "dx");
      expect_finite(actual_y.padding, "y");
      expect_zero(actual_dx.padding, "dx");
      if (ops->pools_take_relu()) expect_gradients_of_relu(*pool, *expected, x, y, dy);
    });
  }

  // With and without a bias, whose gradient is overwritten or added to. No terms cancel in the sums.
  void expect_gradients_of_relu(ddp::Pool2d& pool, ddp::Pool2d& expected, Values x, Values y, Values dy) {
    const Shape in{c.n, {c.h, c.w, c.c}}, out{c.n, pool2d_output(c.desc({}))};
    for (float& v : dy) v = std::abs(v);
    const TensorOnDevice ax = filled(in, x), ay = filled(out, y), ady = filled(out, dy);
    for (const bool bias : {false, true})
      for (const Gradient mode : {Gradient::overwrite, Gradient::add}) {
        if (!bias && mode == Gradient::add) continue;  // nothing is added
        Values dx(in.elements()), dbias(c.c, 3);
        const OnDevice<float> adbias = on_device(mode == Gradient::add ? dbias : Values(c.c, std::nanf("")));
        const TensorOnDevice adx = unwritten(in);
        expected.backward(on_host(x, in), on_host(y, out), on_host(dy, out), on_host(dx, in),
                          {true, dbias.data(), mode});
        pool.backward(ax.tensor(), ay.tensor(), ady.tensor(), adx.tensor(),
                      {true, bias ? adbias.data() : nullptr, mode});
        expect_activations(adx.values(), dx, "dx behind a ReLU");
        if (bias) expect_within(backend.sums, adbias.values(), dbias, "dbias");
      }
  }
};
INSTANTIATE_TEST_SUITE_P(, Pool2d, on_each_backend(kPool2dCases), kCaseName);

// Inputs of a maximum have few distinct values, so most windows have several maxima. For CUDA, values are also all
// above or all below 0 (the padding). These passes have NaN too: windows have none, one or several. One pass is enough
// for what is larger than the grid.
TEST_P(Pool2d, AgreesWithTheReference) {
  Values x = random(c.n * c.h * c.w * c.c, 1);
  if (c.kind != PoolKind::maximum) return expect_agreement(x);
  for (float& v : x) v = std::round(v * 2) / 2;
  expect_agreement(x);
  if (x.size() > 100'000) return;
  for (const float shift : {0.0f, 2.0f, -2.0f}) {
    if (shift != 0 && !backend.cuda()) continue;
    Values shifted = x;
    for (float& v : shifted) v += shift;
    for (size_t i = 0; i < x.size(); i += i % 7 + 5) shifted[i] = NAN;
    expect_agreement(shifted);
  }
}

}  // namespace
}  // namespace ddp::testing
