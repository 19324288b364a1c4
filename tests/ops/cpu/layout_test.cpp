#include "ops/cpu/layout.h"

#include "device/cpu/device.h"
#include "tests/ops/backend.h"

namespace ddp::testing {
namespace {

class CpuReorder : public ::testing::TestWithParam<Shape> {};

// The plain loops of tests/ops/reference place the values.
TEST_P(CpuReorder, PlacesEveryValueAsTheFormatDefines) {
  const Shape shape = GetParam();
  const auto device = make_cpu_device();
  const std::vector<Format> formats = backends().front().formats;
  Values numbers(shape.elements());
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i) + 1.0f / 512;
  for (const Format first : formats)
    for (const Format second : formats)
      for (const DType from_type : {DType::f32, DType::bf16})
        for (const DType to_type : {DType::f32, DType::bf16}) {
          SCOPED_TRACE(fmt::format("from {} {} to {} {}", text_of(first), 8 * size_of(from_type), text_of(second),
                                   8 * size_of(to_type)));
          const TensorOnDevice from(*device, shape, first, from_type, numbers), to(*device, shape, second, to_type);
          reorder(Workers{*device, 1}, from.tensor(), to.tensor());
          const auto [dense, padding] = to.loaded();
          EXPECT_EQ(dense, rounded(from.values(), to_type));
          EXPECT_EQ(padding, Values(padding.size()));
        }
}

INSTANTIATE_TEST_SUITE_P(, CpuReorder,
                         ::testing::Values(Shape{1, {1, 1, 1}}, Shape{3, {2, 3, 5}}, Shape{17, {1, 1, 32}},
                                           Shape{2, {4, 1, 24}}, Shape{16, {2, 2, 16}}, Shape{9, {3, 2, 20}}));

}  // namespace
}  // namespace ddp::testing
