#include "tests/ops/fixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ddp::testing {
namespace {

using Kind = Pool2dDesc::Kind;

struct Pool2dCase {
  Kind kind;
  int64_t n, h, w, c;
  Window2d window = {};
};

const Pool2dCase kPool2dCases[] = {{Kind::average, 5, 26, 26, 20, {2, 2}},
                                   {Kind::average, 17, 9, 9, 16, {2, 2}},
                                   {Kind::average, 3, 7, 8, 3, {3, 2}},
                                   {Kind::average, 2, 9, 9, 5, {2, 3}},
                                   {Kind::average, 1, 4, 4, 8, {4, 4}},
                                   {Kind::maximum, 5, 26, 26, 20, {2, 2}},
                                   {Kind::maximum, 17, 8, 9, 16, {3, 2, 1}},
                                   {Kind::maximum, 3, 7, 8, 3, {3, 1, 1}},
                                   {Kind::maximum, 2, 9, 8, 33, {2, 3, {0, 0, 1, 1}}},
                                   {Kind::maximum, 2, 8, 6, 5, {3, 2, {0, 1, 1, 0}}},
                                   {Kind::maximum, 1, 1, 1, 1, {1, 1}},
                                   {Kind::maximum, 9, 5, 5, 24, {5, 1, 2}},
                                   {Kind::global_average, 5, 7, 6, 20},
                                   {Kind::global_average, 17, 4, 4, 32},
                                   {Kind::global_average, 1, 1, 1, 1}};

class Pool2dTest : public ::testing::TestWithParam<Pool2dCase> {};

// Few distinct values, so windows have several maxima. Values have 3 bits, so sums are exact in bf16.
Values coarse(int64_t count, uint64_t seed) {
  Values values = random_values(count, seed);
  for (float& v : values) v = std::round(v * 4) / 4;
  return values;
}

// Replaces NaN, which compares unequal to itself, by a number.
Values comparable(Values values) {
  std::replace_if(
      values.begin(), values.end(), [](float v) { return std::isnan(v); }, 256.0f);
  return values;
}

void expect_agreement(const Pool2dCase& c, const Values& x) {
  const auto device = make_cpu_device();
  Pool2dDesc desc{c.kind, {c.h, c.w, c.c}, {}, c.window};
  const Shape in{c.n, desc.input}, out{c.n, pool2d_output(desc)};
  const Values dy = coarse(out.elements(), 2);
  Owned rx(*device, in, {}, x), ry(out, {}), rdy(*device, out, {}, dy), rdx(in, {});
  const auto reference = make_reference_ops(*device)->pool2d(desc, {});
  reference->forward(rx.tensor(), ry.tensor());
  reference->backward(rx.tensor(), ry.tensor(), rdy.tensor(), rdx.tensor());
  for (const Format format : kAllFormats)
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const int threads : {1, 2}) {
        SCOPED_TRACE(fmt::format("kind {} block {}, {}, {} threads", static_cast<int>(format.kind), format.block,
                                 name_of(dtype), threads));
        desc.format = format;
        const auto pool = make_cpu_ops(*device, config_of(dtype, threads))->pool2d(desc, {});
        Owned ax(*device, in, format, x, dtype), ay(out, format, dtype), ady(*device, out, format, dy, dtype),
            adx(in, format, dtype);
        pool->forward(ax.tensor(), ay.tensor());
        expect_close(comparable(ay.dense(*device)), comparable(ry.memory), dtype, "y");
        const Tensor nothing;
        const bool reads = c.kind == Kind::maximum;
        pool->backward(reads ? ax.tensor() : nothing, reads ? ay.tensor() : nothing, ady.tensor(), adx.tensor());
        expect_close(adx.dense(*device), rdx.memory, dtype, "dx");
        expect_padding_finite(ay, "y");
        expect_padding_zero(adx, "dx");
      }
}

TEST_P(Pool2dTest, AgreesWithTheReference) {
  const Pool2dCase& c = GetParam();
  expect_agreement(c, coarse(c.n * c.h * c.w * c.c, 1));
}

// A NaN is the maximum of its windows. Some windows hold several NaNs.
TEST(MaximumPooling, HandlesNanLikeTheReference) {
  for (const Pool2dCase& c : kPool2dCases) {
    if (c.kind != Kind::maximum) continue;
    SCOPED_TRACE(fmt::format("n{} {}x{}x{} k{}", c.n, c.h, c.w, c.c, c.window.kernel));
    Values x = coarse(c.n * c.h * c.w * c.c, 1);
    for (size_t i = 0; i < x.size(); i += i % 7 + 5) x[i] = NAN;
    expect_agreement(c, x);
  }
}

const char* name_of(Kind kind) {
  return kind == Kind::average ? "average" : kind == Kind::maximum ? "maximum" : "global";
}

INSTANTIATE_TEST_SUITE_P(, Pool2dTest, ::testing::ValuesIn(kPool2dCases), [](const auto& tested) {
  const Pool2dCase& c = tested.param;
  const Padding& p = c.window.padding;
  return fmt::format("{}_n{}_{}x{}x{}_k{}_s{}_p{}{}{}{}", name_of(c.kind), c.n, c.h, c.w, c.c, c.window.kernel,
                     c.window.stride, p.top, p.left, p.bottom, p.right);
});

}  // namespace
}  // namespace ddp::testing
