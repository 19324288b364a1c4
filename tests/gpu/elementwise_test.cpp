// Elementwise ops and softmax.
#include "tests/gpu/fixture.h"

#include <algorithm>

namespace ddp::testing {
namespace {

class ElementwiseOnGpu : public ::testing::TestWithParam<Precision> {
 protected:
  const std::unique_ptr<Device> cpu = make_cpu_device();
  const std::unique_ptr<Ops> reference = make_reference_ops(*cpu);
  const Gpu gpu{GetParam()};
  Device& device = *gpu.device;
  Ops& ops = *gpu.ops;
  const DType dtype = ops.activation_dtype();
  const double tolerance = elementwise_tolerance_of(GetParam());

  Values random(int64_t count, uint64_t seed) const { return rounded(random_values(count, seed), dtype); }
};
INSTANTIATE_TEST_SUITE_P(, ElementwiseOnGpu, ::testing::ValuesIn(kPrecisions),
                         [](const auto& tested) { return name_of(tested.param); });

TEST_P(ElementwiseOnGpu, NormalizeGathersByIdAndCrops) {
  const ImageShape image{28, 28, 3};
  const int64_t images = 300;
  std::vector<uint8_t> pixels(images * image.elements());
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 37 % 251);
  const Buffer device_pixels = uploaded(device, pixels);
  for (const ImageShape read : {ImageShape{28, 28, 3}, ImageShape{26, 25, 3}})
    for (const int64_t n : {1, 17, 256})
      for (const bool by_id : {false, true}) {
        SCOPED_TRACE(fmt::format("{}x{}, n {}{}", read.h, read.w, n, by_id ? ", by id" : ""));
        std::vector<int32_t> ids(n);
        for (int64_t i = 0; i < n; ++i) ids[i] = static_cast<int32_t>(i * 71 % images);
        const Buffer device_ids = uploaded(device, ids);
        const Shape shape{n, read};
        Owned expected(shape, {});
        const OnGpu x(device, shape.elements(), dtype);
        reference->normalize({.images = pixels.data(), .ids = by_id ? ids.data() : nullptr, .size = n}, image,
                             expected.tensor());
        ops.normalize(
            {.images = device_pixels.as<uint8_t>(), .ids = by_id ? device_ids.as<int32_t>() : nullptr, .size = n},
            image, x.tensor(shape));
        expect_agrees(x.values(), rounded(expected.memory, dtype), "x", tolerance);
      }
}

TEST_P(ElementwiseOnGpu, ReluAndReluGradientAreExact) {
  for (const Shape& shape : {Shape{1, {1, 1, 1}}, Shape{5, {40, 40, 9}}, Shape{256, {24, 24, 20}}}) {
    const Values x = random(shape.elements(), 1), dy = random(shape.elements(), 2);
    Owned rx(*cpu, shape, {}, x), ry(shape, {}), rdy(*cpu, shape, {}, dy), rdx(shape, {});
    reference->relu(rx.tensor(), ry.tensor());
    reference->relu_backward(ry.tensor(), rdy.tensor(), rdx.tensor());
    const OnGpu ax(device, x, dtype), ay(device, shape.elements(), dtype), ady(device, dy, dtype);
    ops.relu(ax.tensor(shape), ay.tensor(shape));
    EXPECT_EQ(ay.values(), ry.memory);
    ops.relu(ax.tensor(shape), ax.tensor(shape));
    EXPECT_EQ(ax.values(), ry.memory) << "in place";
    ops.relu_backward(ay.tensor(shape), ady.tensor(shape), ady.tensor(shape));
    EXPECT_EQ(ady.values(), rdx.memory);
  }
}

TEST_P(ElementwiseOnGpu, SoftmaxCrossEntropy) {
  for (const int64_t classes : {2, 10, 100, 1000})
    for (const int64_t n : {1, 5, 17, 96, 256}) {
      const float smoothing = n % 2 == 0 ? 0.1f : 0.0f;
      SCOPED_TRACE(fmt::format("{} samples of {} classes, smoothing {}", n, classes, smoothing));
      const Shape shape{n, {1, 1, classes}};
      Values z = random(shape.elements(), n);
      for (float& v : z) v *= 2;
      std::vector<int32_t> labels(n), ids(n);
      for (int64_t i = 0; i < n; ++i) {
        labels[i] = static_cast<int32_t>(i * 7 % classes);
        ids[i] = static_cast<int32_t>(n - 1 - i);
      }
      Owned r(*cpu, shape, {}, z), rd(shape, {});
      float expected[2];
      reference->softmax_cross_entropy_backward(r.tensor(), {.labels = labels.data(), .ids = ids.data(), .size = n},
                                                0.25f, smoothing, rd.tensor(), expected, Gradient::overwrite);
      const Buffer device_labels = uploaded(device, labels), device_ids = uploaded(device, ids);
      const DeviceBatch batch{.labels = device_labels.as<int32_t>(), .ids = device_ids.as<int32_t>(), .size = n};
      const OnGpu logits(device, z, dtype), apart(device, shape.elements(), dtype), stats(device, 2),
          only_stats(device, 2), added(device, Values{2, 3});
      ops.softmax_cross_entropy(logits.tensor(shape), batch, only_stats.f32());
      ops.softmax_cross_entropy_backward(logits.tensor(shape), batch, 0.25f, smoothing, apart.tensor(shape),
                                         stats.f32(), Gradient::overwrite);
      expect_agrees({stats.values()[0]}, {expected[0]}, "loss", 1e-5);
      EXPECT_EQ(stats.values()[1], expected[1]);
      if (smoothing == 0) {
        EXPECT_EQ(stats.values(), only_stats.values());
      }
      expect_agrees(apart.values(), rd.memory, "dlogits", tolerance);
      ops.softmax_cross_entropy_backward(logits.tensor(shape), batch, 0.25f, smoothing, logits.tensor(shape),
                                         added.f32(), Gradient::add);
      EXPECT_EQ(logits.values(), apart.values()) << "in place";
      EXPECT_EQ(added.values(), (Values{stats.values()[0] + 2, stats.values()[1] + 3}));
    }
}

TEST_P(ElementwiseOnGpu, SoftmaxIsSafeAtLargeLogitsAndPredictsTheFirstMaximum) {
  const Shape shape{2, {1, 1, 3}};
  const OnGpu logits(device, Values{16384, -16384, 0, -16384, 16384, 16384}, dtype), d(device, 6, dtype),
      stats(device, 2);
  const Buffer labels = uploaded(device, std::vector<int32_t>{1, 2});
  ops.softmax_cross_entropy_backward(logits.tensor(shape), {.labels = labels.as<int32_t>(), .size = 2}, 1, 0,
                                     d.tensor(shape), stats.f32(), Gradient::overwrite);
  EXPECT_NEAR(stats.values()[0], 32768 + std::log(2), 1e-2);
  EXPECT_EQ(stats.values()[1], 0);
  EXPECT_EQ(d.values(), (Values{1, -1, 0, 0, 0.5, -0.5}));
}

TEST_P(ElementwiseOnGpu, FlagNonfiniteMarksTheFirstNonfiniteValue) {
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()})
    for (const int64_t at : {0, 20000, 40000}) {
      Values values(40001, std::numeric_limits<float>::max());
      const OnGpu good(device, values), flag(device, Values{0});
      ops.flag_nonfinite(good.f32(), 40001, 3, flag.f32());
      EXPECT_EQ(flag.values()[0], 0);
      values[at] = bad;
      const OnGpu tainted(device, values);
      ops.flag_nonfinite(tainted.f32(), 40001, 3, flag.f32());
      EXPECT_EQ(flag.values()[0], 3);
      ops.flag_nonfinite(tainted.f32(), 40001, 4, flag.f32());
      EXPECT_EQ(flag.values()[0], 3);
    }
}

TEST_P(ElementwiseOnGpu, ReorderCopies) {
  const Shape shape{5, {3, 4, 11}};
  const Values x = random(shape.elements(), 1);
  const OnGpu from(device, x, dtype), to(device, shape.elements(), dtype);
  ops.reorder(from.tensor(shape), to.tensor(shape));
  EXPECT_EQ(to.values(), x);
}

}  // namespace
}  // namespace ddp::testing
