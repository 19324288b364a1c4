#include "tests/ops/backend.h"

#include <bit>
#include <limits>

namespace ddp::testing {
namespace {

class Elementwise : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(, Elementwise, ::testing::ValuesIn(backends_where(is_compared)), kBackendName);

TEST_P(Elementwise, NormalizeGathersCropsAndClearsThePadding) {
  struct Cropped {
    int64_t n;
    ImageShape image, part;
    On on = On::every;
  };
  const Cropped cases[] = {{1, {28, 28, 1}, {28, 28, 1}},
                           {5, {28, 28, 1}, {28, 28, 1}},
                           {3, {28, 28, 1}, {9, 28, 1}},
                           {1, {7, 8, 3}, {5, 7, 3}},
                           {8, {7, 8, 3}, {5, 7, 3}},
                           {17, {7, 8, 3}, {5, 7, 3}},
                           {1, {7, 8, 19}, {5, 7, 19}},
                           {8, {7, 8, 19}, {5, 7, 19}},
                           {17, {7, 8, 19}, {5, 7, 19}},
                           {2, {8, 8, 3}, {8, 4, 3}},
                           {4, {5, 5, 3}, {5, 5, 3}},
                           {3, {12, 16, 8}, {10, 12, 8}},
                           {1, {735, 737, 1}, {735, 737, 1}, On::cuda},  // larger than the grid
                           {256, {28, 28, 3}, {28, 28, 3}, On::gpu},
                           {256, {28, 28, 3}, {26, 25, 3}, On::gpu}};
  for (const auto& [n, image, part, on] : cases)
    for (const bool by_id : {false, true}) {
      if (!backend.runs(on)) continue;
      SCOPED_TRACE(fmt::format("{} of {}x{}x{}, by id {}", n, image.h, image.w, image.c, by_id));
      std::vector<uint8_t> pixels(2 * n * image.elements());
      for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 37 + i / 251);
      std::vector<int32_t> ids(n);
      for (int64_t i = 0; i < n; ++i) ids[i] = static_cast<int32_t>(2 * n - 1 - i * 2);
      const OnDevice<uint8_t> on_pixels(*device, pixels);
      const OnDevice<int32_t> on_ids(*device, ids);
      const Shape shape{n, part};
      Values expected(shape.elements());
      reference->normalize({.images = pixels.data(), .ids = by_id ? ids.data() : nullptr, .size = n}, image,
                           on_host(expected, shape));
      each_setup([&] {
        const auto x = unwritten(shape);
        ops->normalize({.images = on_pixels.data(), .ids = by_id ? on_ids.data() : nullptr, .size = n}, image,
                       x.tensor());
        expect_within(backend.pixels, x.values(), rounded(expected, type), "x");
        expect_zero(x.loaded().padding, "x");
      });
    }
}

TEST_P(Elementwise, ReluReluGradientAndAddAreExact) {
  struct Count {
    Shape shape;
    On on = On::every;
  };
  for (const auto& [shape, on] :
       {Count{{1, {1, 1, 1}}}, Count{{3, {1, 1, 7}}}, Count{{5, {40, 40, 9}}}, Count{{5, {40, 30, 12}}, On::cuda},
        Count{{1, {1, 1, 72005}}, On::cuda}, Count{{256, {24, 24, 20}}, On::gpu}}) {
    if (!backend.runs(on)) continue;
    SCOPED_TRACE(fmt::format("{} elements", shape.elements()));
    const int64_t count = shape.elements();
    Values x = random(count, 1), dy = random(count, 2), y(count), dx(count), sum(count);
    reference->relu(on_host(x, shape), on_host(y, shape));
    reference->relu_backward(on_host(y, shape), on_host(dy, shape), on_host(dx, shape));
    reference->add(on_host(x, shape), on_host(dy, shape), on_host(sum, shape));
    sum = rounded(sum, type);
    each_setup(backend.formats, backend.offsets, [&] {
      const auto ax = filled(shape, x), ay = unwritten(shape), ady = filled(shape, dy), adx = unwritten(shape),
                 asum = unwritten(shape), first = filled(shape, x), second = filled(shape, dy);
      ops->add(ax.tensor(), ady.tensor(), asum.tensor());
      EXPECT_EQ(asum.values(), sum);
      ops->add(first.tensor(), ady.tensor(), first.tensor());
      EXPECT_EQ(first.values(), sum) << "in place of the first";
      ops->add(ax.tensor(), second.tensor(), second.tensor());
      EXPECT_EQ(second.values(), sum) << "in place of the second";
      ops->relu(ax.tensor(), ay.tensor());
      ops->relu_backward(ay.tensor(), ady.tensor(), adx.tensor());
      EXPECT_EQ(ay.values(), y);
      EXPECT_EQ(adx.values(), dx);
      ops->relu(ax.tensor(), ax.tensor());
      ops->relu_backward(ay.tensor(), ady.tensor(), ady.tensor());
      EXPECT_EQ(ax.values(), y) << "in place";
      EXPECT_EQ(ady.values(), dx) << "in place";
    });
  }
}

TEST_P(Elementwise, ReorderKeepsValuesAndPadsWithZeros) {
  const Shape shape{5, {3, 4, 11}};
  const Values x = random(shape.elements(), 1);
  for (const Format to : backend.formats)
    each_setup([&] {
      SCOPED_TRACE(text_of(to));
      const auto from = filled(shape, x);
      const TensorOnDevice copy(*device, shape, to, type);
      ops->reorder(from.tensor(), copy.tensor());
      EXPECT_EQ(copy.values(), x);
      expect_zero(copy.loaded().padding, "the copy");
    });
}

// Spans of f32 and bf16 values, without a format.
class Spans : public BackendTest {
 protected:
  template <class F>
  void each_span(F&& body) {
    for (const int64_t count : {1, 3, 8, 40'001, 129'068}) {
      SCOPED_TRACE(fmt::format("{} elements", count));
      if (count < 100'000 || backend.cuda()) each_setup({Format{}}, backend.offsets, [&] { body(count); });
    }
  }
};
INSTANTIATE_TEST_SUITE_P(, Spans, ::testing::ValuesIn(backends_where(is_compared, runs_spans)), kBackendName);

TEST_P(Spans, FlagNonfiniteMarksTheFirstNonfiniteValue) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  each_span([&](int64_t count) {
    Values values(count, std::numeric_limits<float>::max());
    const auto flag = on_device(Values{0}), finite = on_device(values);
    ops->flag_nonfinite(finite.data(), count, 3, flag.data());
    EXPECT_EQ(flag.values()[0], 0);
    for (const float bad : {kInfinity, -kInfinity, std::nanf("")})
      for (const int64_t at : {int64_t{0}, count / 2, count - 1}) {
        values[at] = bad;
        const auto broken = on_device(values), first = on_device(Values{0});
        ops->flag_nonfinite(broken.data(), count, 3, first.data());
        EXPECT_EQ(first.values()[0], 3);
        ops->flag_nonfinite(broken.data(), count, 4, first.data());
        EXPECT_EQ(first.values()[0], 3);
        values[at] = std::numeric_limits<float>::max();
      }
  });
}

TEST_P(Spans, CopyOrAddIsExact) {
  each_span([&](int64_t count) {
    const Values a = random_values(count, 1), b = random_values(count, 2);
    Values sum = b;
    reference->copy_or_add(a.data(), sum.data(), count, Gradient::add);
    const auto from = on_device(a), to = on_device(b), copy = unwritten(count);
    ops->copy_or_add(from.data(), to.data(), count, Gradient::add);
    EXPECT_EQ(to.values(), sum);
    ops->copy_or_add(from.data(), copy.data(), count, Gradient::overwrite);
    EXPECT_EQ(copy.values(), a);
  });
}

TEST_P(Spans, Bf16RoundsToNearestEvenAndKeepsNanAndInfinity) {
  // Plain rounding would turn the last two, both NaN, into 0 and infinity.
  const Values special = {0,
                          -0.0f,
                          1 + 0x1p-8f,
                          1 + 0x3p-8f,
                          1 + 0x1.01p-8f,
                          1e-40f,
                          3.4e38f,
                          INFINITY,
                          -INFINITY,
                          NAN,
                          std::bit_cast<float>(0x7fffffffu),
                          std::bit_cast<float>(0x7f800001u)};
  each_span([&](int64_t count) {
    Values values = random_values(count, 1);
    if (count > 100) {
      std::ranges::copy(special, values.begin() + 5);
      std::ranges::copy(special, values.end() - std::ssize(special));
    }
    const auto from = on_device(values), back = unwritten(count);
    const auto halves = on_device(std::vector<uint16_t>(count, 0xffff));
    ops->to_bf16(from.data(), halves.data(), count);
    ops->from_bf16(halves.data(), back.data(), count);
    const std::vector<uint16_t> half = halves.values();
    const Values wide = back.values();
    for (int64_t i = 0; i < count; ++i) {
      if (std::isnan(values[i]) && backend.cuda())  // CUDA has one NaN
        ASSERT_TRUE(std::isnan(float_of_bf16(half[i]))) << i;
      else
        ASSERT_EQ(half[i], bf16_of_float(values[i])) << i;
      ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(float_of_bf16(half[i]))) << i;
    }
    if (count < 100) return;
    EXPECT_EQ(wide[7], 1);
    EXPECT_EQ(wide[8], 1 + 0x1p-6f);
    EXPECT_EQ(wide[9], 1 + 0x1p-7f);
    for (const int i : {14, 15, 16}) EXPECT_TRUE(std::isnan(wide[i])) << i;
  });
}

}  // namespace
}  // namespace ddp::testing
