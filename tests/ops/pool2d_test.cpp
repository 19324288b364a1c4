#include "tests/ops/rig.h"

#include <fmt/format.h>

namespace ddp::testing {
namespace {

struct Case {
  int64_t n, h, w, c, kernel, stride;
};

const Case kCases[] = {
    {5, 26, 26, 20, 2, 2}, {17, 9, 9, 16, 2, 2}, {3, 7, 8, 3, 3, 2}, {2, 9, 9, 5, 2, 3}, {1, 4, 4, 8, 4, 4}};

class AvgPool2dTest : public ::testing::TestWithParam<Case> {};

TEST_P(AvgPool2dTest, AgreesWithTheReference) {
  const Case c = GetParam();
  const auto device = make_cpu_device();
  AvgPool2dDesc desc{{c.h, c.w, c.c}, {}, c.kernel, c.stride};
  const Shape in{c.n, desc.input}, out{c.n, avg_pool2d_output(desc)};
  const Values x = random_values(in.elements(), 1), dy = random_values(out.elements(), 2);
  Owned rx(*device, in, {}, x), ry(out, {}), rdy(*device, out, {}, dy), rdx(in, {});
  const auto reference = make_reference_ops(*device)->avg_pool2d(desc, {});
  reference->forward(rx.tensor(), ry.tensor());
  reference->backward(rdy.tensor(), rdx.tensor());
  for (const Format format : {Format{}, Format::lanes(8), Format::lanes(16), Format::channels(8), Format::channels(16)})
    for (const int threads : {1, 2}) {
      if (format.kind == Format::Kind::channels && c.c % format.block != 0) continue;
      SCOPED_TRACE(fmt::format("kind {} block {}, {} threads", static_cast<int>(format.kind), format.block, threads));
      desc.format = format;
      const auto pool = make_cpu_ops(*device, threads)->avg_pool2d(desc, {});
      Owned ax(*device, in, format, x), ay(out, format), ady(*device, out, format, dy), adx(in, format);
      pool->forward(ax.tensor(), ay.tensor());
      pool->backward(ady.tensor(), adx.tensor());
      expect_close(ay.dense(*device), ry.memory, "y");
      expect_close(adx.dense(*device), rdx.memory, "dx");
      expect_padding_zero(adx, "dx");
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, AvgPool2dTest, ::testing::ValuesIn(kCases), [](const auto& tested) {
  const Case& c = tested.param;
  return fmt::format("n{}_{}x{}x{}_k{}_s{}", c.n, c.h, c.w, c.c, c.kernel, c.stride);
});

}  // namespace
}  // namespace ddp::testing
