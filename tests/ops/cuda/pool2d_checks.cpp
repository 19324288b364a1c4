#include "tests/ops/cuda/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ddp::testing {
namespace {

struct Case {
  int64_t n, h, w, c;
  Window2d window;
};

// Replaces NaN, which compares unequal to itself, by a number.
Values comparable(Values values) {
  std::replace_if(
      values.begin(), values.end(), [](float v) { return std::isnan(v); }, 1e6f);
  return values;
}

void check(const Tested& t, Pool2dDesc::Kind kind, const Case& c, const Values& x) {
  const Pool2dDesc desc{kind, {c.h, c.w, c.c}, {}, c.window};
  const Shape in{c.n, desc.input}, out{c.n, pool2d_output(desc)};
  const auto& [kernel, stride, padding] = c.window;
  SCOPED_TRACE(fmt::format("n{} {}x{}x{} k{} s{} p{},{},{},{}", c.n, c.h, c.w, c.c, kernel, stride, padding.top,
                           padding.left, padding.bottom, padding.right));
  const bool reads_inputs = kind == Pool2dDesc::Kind::maximum;
  Values in_x = x, y(out.elements()), dy = t.random(out.elements(), 2), dx(in.elements());
  const auto reference = t.reference.pool2d(desc, {});
  reference->forward(on_host(in_x, in), on_host(y, out));
  reference->backward(on_host(in_x, in), on_host(y, out), on_host(dy, out), on_host(dx, in));
  const int64_t sizes[] = {c.n};
  const auto pool = t.ops.pool2d(desc, sizes);
  for (const int64_t before : {0, 1}) {  // 1 element before the data makes all pointers unaligned
    const OnDeviceTensor ax(t.device, in, t.type, x, before), ay(t.device, out, t.type, before);
    const OnDeviceTensor ady(t.device, out, t.type, dy, before), adx(t.device, in, t.type, before);
    pool->forward(ax.tensor(), ay.tensor());
    pool->backward(reads_inputs ? ax.tensor() : Tensor{nullptr, in, {}, t.type},
                   reads_inputs ? ay.tensor() : Tensor{nullptr, out, {}, t.type}, ady.tensor(), adx.tensor());
    if (reads_inputs)
      EXPECT_EQ(comparable(ay.values()), comparable(y));
    else
      expect_close(ay.values(), y, "y", t.tolerance());
    expect_close(adx.values(), dx, "dx", t.tolerance());
  }
}

}  // namespace

// LeNet's two poolings, edges that no window covers, windows with gaps, and overlapping windows.
void check_average_pooling(const Tested& t) {
  for (const Case& c : {Case{5, 26, 26, 20, {2, 2}},
                        {3, 9, 9, 50, {2, 2}},
                        {1, 1, 1, 1, {1, 1}},
                        {1, 4, 4, 8, {4, 4}},
                        {2, 5, 6, 7, {2, 2}},
                        {2, 9, 9, 5, {2, 3}},
                        {2, 12, 7, 4, {3, 5}},
                        {3, 7, 8, 3, {3, 2}},
                        {2, 9, 10, 16, {3, 1}},
                        {1, 11, 9, 12, {5, 2}},
                        {1, 8, 8, 6, {4, 3}},
                        {1, 740, 733, 1, {1, 1}},
                        {1, 740, 733, 1, {2, 1}}})
    check(t, Pool2dDesc::Kind::average, c, t.random(c.n * c.h * c.w * c.c, 1));
}

// The inputs have few distinct values, so most windows have several maxima; values are above 0 (the padding), below 0,
// or both. A second pass adds NaN: windows have none, one or several.
void check_maximum_pooling(const Tested& t) {
  for (const Case& c : {Case{3, 8, 8, 12, {2, 2}},
                        {1, 1, 1, 1, {1, 1}},
                        {1, 1, 1, 3, {3, 2, 1}},
                        {2, 5, 6, 17, {2, 2}},
                        {2, 7, 7, 64, {3, 2, 1}},
                        {1, 14, 14, 1, {3, 2, 1}},
                        {2, 9, 7, 3, {3, 1, 1}},
                        {2, 9, 8, 5, {2, 3}},
                        {2, 6, 7, 8, {3, 2, {0, 1, 2, 1}}},
                        {2, 7, 6, 16, {2, 2, {1, 0, 0, 1}}},
                        {1, 8, 5, 4, {3, 3, {2, 1, 1, 2}}},
                        {1, 6, 6, 2, {5, 1, 2}},
                        {1, 740, 733, 1, {2, 2}},
                        {1, 740, 733, 1, {2, 1}}})
    for (const float shift : {0.0f, 2.0f, -2.0f}) {
      Values x = random_values(c.n * c.h * c.w * c.c, 1);
      for (float& v : x) v = std::round(v * 2) / 2 + shift;
      check(t, Pool2dDesc::Kind::maximum, c, x);
      for (size_t i = 0; i < x.size(); i += i % 7 + 5) x[i] = NAN;
      check(t, Pool2dDesc::Kind::maximum, c, x);
    }
}

void check_global_average_pooling(const Tested& t) {
  for (const Case& c :
       {Case{1, 1, 1, 1, {}}, {5, 4, 4, 64, {}}, {3, 7, 5, 17, {}}, {2, 3, 8, 12, {}}, {700, 2, 1, 3, {}}})
    check(t, Pool2dDesc::Kind::global_average, c, t.random(c.n * c.h * c.w * c.c, 1));
}

}  // namespace ddp::testing
