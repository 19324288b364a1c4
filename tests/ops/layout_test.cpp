#include "ops/cpu/layout.h"

#include "core/bf16.h"
#include "tests/ops/fixture.h"

#include <fmt/format.h>

namespace ddp::testing {
namespace {

// The position of a value by the definition in device/format.h.
int64_t place(const Tensor& t, int64_t n, int64_t pixel, int64_t c) {
  const int64_t pixels = t.shape.image.h * t.shape.image.w, channels = t.shape.image.c, block = t.format.block;
  if (t.format.kind == Format::Kind::batch_interleaved)
    return ((n / block * pixels + pixel) * channels + c) * block + n % block;
  if (t.format.kind == Format::Kind::blocked_channels)
    return ((n * ceil_div(channels, block) + c / block) * pixels + pixel) * block + c % block;
  return (n * pixels + pixel) * channels + c;
}

float value_at(const Tensor& t, int64_t i) {
  return t.dtype == DType::f32 ? t.f32()[i] : float_of_bf16(static_cast<const uint16_t*>(t.data)[i]);
}

class ReorderTest : public ::testing::TestWithParam<Shape> {};

TEST_P(ReorderTest, PlacesEveryValueAsTheFormatDefines) {
  const Shape shape = GetParam();
  const int64_t pixels = shape.image.h * shape.image.w;
  const auto device = make_cpu_device();
  for (const Format first : kAllFormats)
    for (const Format second : kAllFormats)
      for (const DType from_type : {DType::f32, DType::bf16})
        for (const DType to_type : {DType::f32, DType::bf16}) {
          SCOPED_TRACE(fmt::format("from format {} block {} {} to format {} block {} {}", static_cast<int>(first.kind),
                                   first.block, name_of(from_type), static_cast<int>(second.kind), second.block,
                                   name_of(to_type)));
          Owned from(shape, first, from_type), to(shape, second, to_type);
          for (int64_t i = 0; i < from.tensor().stored(); ++i)
            if (from_type == DType::f32)
              from.memory[i] = 0;
            else
              from.half[i] = 0;
          int64_t number = 0, wrong = 0;
          for (int64_t n = 0; n < shape.n; ++n)
            for (int64_t p = 0; p < pixels; ++p)
              for (int64_t c = 0; c < shape.image.c; ++c) {
                const int64_t at = place(from.tensor(), n, p, c);
                const float value = static_cast<float>(number++) + 1.0f / 512;
                if (from_type == DType::f32)
                  from.memory[at] = value;
                else
                  from.half[at] = bf16_of_float(value);
              }
          reorder(Workers{*device, 1}, from.tensor(), to.tensor());
          for (int64_t n = 0; n < shape.n; ++n)
            for (int64_t p = 0; p < pixels; ++p)
              for (int64_t c = 0; c < shape.image.c; ++c) {
                const float given = value_at(from.tensor(), place(from.tensor(), n, p, c));
                const float wanted = to_type == DType::bf16 ? float_of_bf16(bf16_of_float(given)) : given;
                wrong += value_at(to.tensor(), place(to.tensor(), n, p, c)) != wanted;
              }
          EXPECT_EQ(wrong, 0);
          expect_padding_zero(to, "what is stored");
        }
}

INSTANTIATE_TEST_SUITE_P(, ReorderTest,
                         ::testing::Values(Shape{1, {1, 1, 1}}, Shape{3, {2, 3, 5}}, Shape{17, {1, 1, 32}},
                                           Shape{2, {4, 1, 24}}, Shape{16, {2, 2, 16}}, Shape{9, {3, 2, 20}}));

}  // namespace
}  // namespace ddp::testing
