#include "ops/cuda/pool2d.h"

#include "tests/emulated_ops/rig.h"

#include <fmt/format.h>

#include <tuple>

namespace ddp::testing {
namespace {

struct Case {
  int64_t n, h, w, c, kernel, stride;
};

// LeNet's two, edges that no window covers, windows with gaps between them, windows that overlap, and more
// positions than the grid.
const Case kCases[] = {{5, 26, 26, 20, 2, 2}, {3, 9, 9, 50, 2, 2},  {1, 1, 1, 1, 1, 1},  {1, 4, 4, 8, 4, 4},
                       {2, 5, 6, 7, 2, 2},    {2, 9, 9, 5, 2, 3},   {2, 12, 7, 4, 3, 5}, {3, 7, 8, 3, 3, 2},
                       {2, 9, 10, 16, 3, 1},  {1, 11, 9, 12, 5, 2}, {1, 8, 8, 6, 4, 3},  {1, 740, 733, 1, 1, 1},
                       {1, 740, 733, 1, 2, 1}};

class EmulatedAvgPool2d : public ::testing::TestWithParam<std::tuple<Case, DType>>, public EmulatedOps {};

TEST_P(EmulatedAvgPool2d, AgreesWithTheReference) {
  const auto [c, type] = GetParam();
  const AvgPool2dDesc desc{{c.h, c.w, c.c}, {}, c.kernel, c.stride};
  const Shape in{c.n, desc.input}, out{c.n, avg_pool2d_output(desc)};
  Values x = rounded(random_values(in.elements(), 1), type), y(out.elements());
  Values dy = rounded(random_values(out.elements(), 2), type), dx(in.elements());
  const auto expected = reference->avg_pool2d(desc, {});
  expected->forward(on_host(x, in), on_host(y, out));
  expected->backward(on_host(dy, out), on_host(dx, in));
  const auto pool = make_avg_pool2d(context, desc);
  for (const int64_t before : {0, 1}) {
    const OnDeviceTensor ax(*device, in, type, x, before), ay(*device, out, type, before);
    const OnDeviceTensor ady(*device, out, type, dy, before), adx(*device, in, type, before);
    pool->forward(ax.tensor(), ay.tensor());
    pool->backward(ady.tensor(), adx.tensor());
    expect_close(ay.values(), y, "y", tolerance_of(type));
    expect_close(adx.values(), dx, "dx", tolerance_of(type));
  }
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<Case, DType>>& tested) {
  const auto& [c, type] = tested.param;
  return fmt::format("n{}_{}x{}x{}_k{}_s{}_{}", c.n, c.h, c.w, c.c, c.kernel, c.stride,
                     type == DType::bf16 ? "bf16" : "f32");
}
INSTANTIATE_TEST_SUITE_P(Shapes, EmulatedAvgPool2d, ::testing::Combine(::testing::ValuesIn(kCases), kTypes), case_name);

}  // namespace
}  // namespace ddp::testing
