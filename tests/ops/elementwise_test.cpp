#include "tests/ops/backend.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <tuple>

namespace ddp::testing {
namespace {

class Elementwise : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(, Elementwise, ::testing::ValuesIn(backends_where(is_compared)), kBackendName);

struct Transform {
  const char* name;
  bool by_id;
  PixelScale scale = {};
  Augmentation augmentation = {};
  uint32_t epoch = 0;
};
const PixelScale kByChannel{{0.0171f, 0.0175f, 0.0174f}, {-2.118f, -2.036f, -1.804f}};
const Transform kTransforms[] = {{"as they are", false},
                                 {"as they are", true},
                                 {"in zeros", true, kByChannel, {.hflip = 0.5f, .crop_padding = 6, .seed = 2}, 3},
                                 {"in mirrors", false, {}, {.hflip = 0.25f, .crop_padding = 4, .reflect = true}, 8},
                                 {"alternate", true, {}, {.alternate_flip = true, .crop_padding = 1, .seed = 3}},
                                 {"alternate, odd", true, {}, {.alternate_flip = true, .seed = 3}, 5},
                                 {"flipped", false, {}, {.hflip = 0.5f, .seed = 1}},
                                 {"with a shift", false, {{0.01f, 0.01f, 0.01f}, {-0.5f, -0.5f, -0.5f}}},
                                 {"scaled by channel", true, kByChannel}};
constexpr size_t kAsTheyAre = 2, kInZeros = 3, kAll = std::size(kTransforms);

// The values are exact.
TEST_P(Elementwise, NormalizeTransformsGathersCropsAndClearsThePadding) {
  struct Cropped {
    int64_t n;
    ImageShape image, part;
    size_t transforms;  // the first ones of kTransforms
    On on = On::every;
  };
  const Cropped cases[] = {{1, {28, 28, 1}, {28, 28, 1}, kAsTheyAre},
                           {5, {28, 28, 1}, {28, 28, 1}, kAsTheyAre},
                           {3, {28, 28, 1}, {9, 28, 1}, kAll},
                           {1, {7, 8, 3}, {5, 7, 3}, kAsTheyAre},
                           {8, {7, 8, 3}, {5, 7, 3}, kAsTheyAre},
                           {17, {7, 8, 3}, {5, 7, 3}, kAll},
                           {1, {7, 8, 19}, {5, 7, 19}, kAsTheyAre},
                           {8, {7, 8, 19}, {5, 7, 19}, kAsTheyAre},
                           {17, {7, 8, 19}, {5, 7, 19}, kAsTheyAre},
                           {2, {8, 8, 3}, {8, 4, 3}, kAsTheyAre},
                           {4, {5, 5, 3}, {5, 5, 3}, kAll},
                           {3, {12, 16, 8}, {10, 12, 8}, kAll},
                           {1, {735, 737, 1}, {735, 737, 1}, kInZeros, On::cuda},  // larger than the grid
                           {256, {28, 28, 3}, {28, 28, 3}, kAll, On::gpu},
                           {256, {28, 28, 3}, {26, 25, 3}, kAll, On::gpu}};
  for (const auto& [n, image, part, transforms, on] : cases)
    for (const auto& [name, by_id, scale, augmentation, epoch] : std::span(kTransforms).first(transforms)) {
      if (!backend.runs(on) || (image.c > 3 && !scale.uniform(image.c))) continue;
      SCOPED_TRACE(fmt::format("{} of {}x{}x{}, by id {}, {}", n, image.h, image.w, image.c, by_id, name));
      std::vector<uint8_t> pixels(2 * n * image.elements());
      for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 37 + i / 251);
      std::vector<int32_t> ids(n), keys(n);
      for (int64_t i = 0; i < n; ++i) {
        ids[i] = static_cast<int32_t>(2 * n - 1 - i * 2);
        keys[i] = static_cast<int32_t>(i * 7919 % 60000);
      }
      const OnDevice<uint8_t> on_pixels(*device, pixels);
      const OnDevice<int32_t> on_ids(*device, ids), on_keys(*device, keys);
      const OnDevice<uint32_t> on_epoch(*device, {epoch});
      const Shape shape{n, part};
      Values expected(shape.elements());
      Augmentation augmented = augmentation;
      augmented.epoch = &epoch;
      reference->normalize(
          {.samples = pixels.data(), .ids = by_id ? ids.data() : nullptr, .keys = keys.data(), .size = n}, image, scale,
          augmented, on_host(expected, shape));
      augmented.epoch = epoch == 0 ? nullptr : on_epoch.data();
      each_setup([&] {
        const auto x = unwritten(shape);
        ops->normalize({.samples = on_pixels.data(),
                        .ids = by_id ? on_ids.data() : nullptr,
                        .keys = augmentation.any() ? on_keys.data() : nullptr,
                        .size = n},
                       image, scale, augmented, x.tensor());
        expect_within(0, x.values(), rounded(expected, type), "x");
        expect_zero(x.loaded().padding, "x");
      });
    }
}

// Samples of one image, whose pixel (i, j) has the value 9 i + j + 1.
class Augmented : public BackendTest {
 protected:
  struct Seen {
    int top, left;  // of the crop against the image
    bool flipped;
    friend bool operator==(const Seen&, const Seen&) = default;
  };

  std::vector<Seen> seen(const std::vector<int32_t>& keys) {
    const Shape shape{std::ssize(keys), {9, 9, 1}};
    std::vector<uint8_t> pixels(81);
    std::iota(pixels.begin(), pixels.end(), uint8_t{1});
    const auto on_pixels = on_device(pixels);
    const auto on_keys = on_device(keys), on_ids = on_device(std::vector<int32_t>(keys.size(), 0));
    const auto on_epoch = on_device(std::vector<uint32_t>{epoch});
    augmentation.epoch = on_epoch.data();
    const auto x = unwritten(shape);
    ops->normalize({.samples = on_pixels.data(), .ids = on_ids.data(), .keys = on_keys.data(), .size = shape.n},
                   shape.image, {.scale = {1, 1, 1}}, augmentation, x.tensor());
    const Values values = x.values();
    std::vector<Seen> seen;
    for (int64_t n = 0; n < shape.n; ++n) {
      const int centre = static_cast<int>(values[n * 81 + 40]) - 1, right = static_cast<int>(values[n * 81 + 41]) - 1;
      EXPECT_EQ(std::abs(right - centre), 1);
      seen.push_back({centre / 9 - 4, centre % 9 - 4, right < centre});
    }
    return seen;
  }
  static std::vector<int32_t> keys_up_to(int32_t n) {
    std::vector<int32_t> keys(n);
    std::iota(keys.begin(), keys.end(), 0);
    return keys;
  }

  uint32_t epoch = 3;
  Augmentation augmentation{.hflip = 0.25f, .crop_padding = 2, .seed = 7};
};
INSTANTIATE_TEST_SUITE_P(, Augmented, ::testing::ValuesIn(backends_where(is_compared)), kBackendName);

TEST_P(Augmented, PlacesAreEquallyLikelyAndFlipsHaveTheirProbability) {
  for (const bool reflect : {false, true}) {
    augmentation.reflect = reflect;
    std::map<std::tuple<int, int, bool>, int> counts;
    for (const auto& [top, left, flipped] : seen(keys_up_to(4000))) ++counts[{top, left, flipped}];
    EXPECT_EQ(counts.size(), 50u);
    for (const auto& [place, count] : counts) {
      const auto& [top, left, flipped] = place;
      const double expected = 4000.0 / 25 * (flipped ? 0.25 : 0.75);
      EXPECT_NEAR(count, expected, 4 * std::sqrt(expected)) << top << ' ' << left << ' ' << flipped;
      EXPECT_LE(std::max(std::abs(top), std::abs(left)), 2);
    }
  }
}

TEST_P(Augmented, DrawsFollowSeedEpochAndSampleAlone) {
  const auto keys = keys_up_to(64);
  const auto first = seen(keys);
  EXPECT_EQ(seen({13, 90, 11}), (std::vector<Seen>{first[13], seen({90})[0], first[11]}));
  const auto same_places = [&](const std::vector<Seen>& other) {
    int same = 0;
    for (size_t i = 0; i < first.size(); ++i) same += other[i].top == first[i].top && other[i].left == first[i].left;
    return same;
  };
  epoch = 4;
  EXPECT_LT(same_places(seen(keys)), 10);  // 64 / 25 are expected
  epoch = 3;
  augmentation.seed = 8;
  EXPECT_LT(same_places(seen(keys)), 10);
}

TEST_P(Augmented, AlternateFlipsMirrorEverySecondEpoch) {
  augmentation = {.alternate_flip = true, .seed = 7};
  const auto flips = [&](uint32_t of_epoch) {
    epoch = of_epoch;
    std::vector<bool> found;
    for (const Seen& s : seen(keys_up_to(1000))) found.push_back(s.flipped);
    return found;
  };
  auto expected = flips(0);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(expected, true)), 500, 64);
  EXPECT_EQ(flips(2), expected);
  expected.flip();
  EXPECT_EQ(flips(1), expected);
  EXPECT_EQ(flips(7), expected);
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

TEST_P(Elementwise, NanStaysNan) {
  const Shape shape{3, {5, 5, 17}};
  const int64_t count = shape.elements();
  Values x = random(count, 1);
  const Values dy = random(count, 2);
  for (int64_t i = 0; i < count; i += 7) x[i] = NAN;
  Values y = x, dx = dy, sum = x, given_dy = dy;
  for (int64_t i = 0; i < count; ++i) {
    if (x[i] <= 0) y[i] = dx[i] = 0;
    sum[i] += dy[i];
  }
  Values of_reference(count);
  reference->relu(on_host(x, shape), on_host(of_reference, shape));
  EXPECT_EQ(comparable(of_reference), comparable(y));
  reference->relu_backward(on_host(y, shape), on_host(given_dy, shape), on_host(of_reference, shape));
  EXPECT_EQ(of_reference, dx);
  each_setup(backend.formats, backend.offsets, [&] {
    const auto ax = filled(shape, x), ay = unwritten(shape), ady = filled(shape, dy), adx = unwritten(shape),
               asum = unwritten(shape);
    ops->relu(ax.tensor(), ay.tensor());
    ops->relu_backward(ay.tensor(), ady.tensor(), adx.tensor());
    ops->add(ax.tensor(), ady.tensor(), asum.tensor());
    EXPECT_EQ(comparable(ay.values()), comparable(y));
    EXPECT_EQ(adx.values(), dx);
    EXPECT_EQ(comparable(asum.values()), comparable(rounded(sum, type)));
  });
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

TEST_P(Spans, NanStaysNanInASum) {
  each_span([&](int64_t count) {
    for (const int64_t at : {int64_t{0}, count / 2, count - 1}) {
      Values values = random_values(count, 1);
      values[at] = NAN;
      const auto from = on_device(values), to = on_device(Values(count)), sum = on_device(Values{0});
      ops->copy_or_add(from.data(), to.data(), count, Gradient::add);
      ops->sum_of_squares(from.data(), count, sum.data(), Gradient::overwrite);
      EXPECT_EQ(comparable(to.values()), comparable(values));
      EXPECT_EQ(count_nans(sum.values()), 1);
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

TEST_P(Spans, LerpMovesAnAverageUnlessItIsSkipped) {
  each_span([&](int64_t count) {
    const Values start = random_values(count, 1), value = random_values(count, 2);
    const auto from = on_device(value), none = on_device(Values{0, 0, 0}), bad = on_device(Values{0, 0, 7});
    for (const float rate : {0.0001f, 0.25f, 0.75f, 1.0f}) {
      Values expected = start;
      reference->lerp(value.data(), expected.data(), count, rate, {});
      const auto to = on_device(start), skipped = on_device(start);
      ops->lerp(from.data(), to.data(), count, rate, {none.data(), 3});
      ops->lerp(from.data(), skipped.data(), count, rate, {bad.data(), 3});
      expect_close(to.values(), expected, "average", rate == 1 ? 0 : 1e-6);
      EXPECT_EQ(skipped.values(), start);
    }
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
