// Mixed and erased samples, and labels with weights (ops/device_batch.h).
#include "tests/ops/backend.h"

#include <vector>

namespace ddp::testing {
namespace {

struct MixCase {
  const char* name;
  bool mixed;
  BatchMix mix = {};
  Augmentation augmentation = {};
  uint32_t epoch = 0;
};

const MixCase kMixCases[] = {
    {"erased", false, {}, {.erase = 0.5f, .seed = 4}, 2},
    {"erased, cropped", false, {}, {.hflip = 0.5f, .crop_padding = 2, .erase = 1, .seed = 5}, 7},
    {"mixup", true, {.lambda = 0.3f}},
    {"mixup of crops", true, {.lambda = 0.7f}, {.hflip = 0.5f, .crop_padding = 3, .erase = 0.5f, .seed = 6}, 3},
    {"mixup of mirrors", true, {.lambda = 0.1f}, {.crop_padding = 2, .reflect = true}},
    {"a box", true, {.lambda = 0.9f, .top = 1, .left = 2, .bottom = 4, .right = 5}, {.alternate_flip = true}, 1},
    {"a box at the edge", true, {.lambda = 0.5f, .top = 3, .left = 0, .bottom = 99, .right = 3}, {.erase = 1}},
    {"no box, no share", true, {.lambda = 1}}};

class Mix : public BackendTest {
 protected:
  // The memory of a batch of n samples and the partner of the first one. Some samples are excluded.
  struct MixMemory {
    MixMemory(const Mix& test, int64_t n, int64_t pixels_of_image, bool by_id)
        : ids(n + 1), keys(n + 1), labels(2 * n + 2) {
      pixels.resize(labels.size() * static_cast<size_t>(pixels_of_image));
      for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 37 + i / 251);
      for (int64_t i = 0; i <= n; ++i) {
        ids[i] = static_cast<int32_t>(2 * n + 1 - i * 2);
        keys[i] = static_cast<int32_t>(i * 7919 % 60000);
      }
      for (size_t i = 0; i < labels.size(); ++i)
        labels[i] = i % 5 == 4 ? kExcludedLabel : static_cast<int32_t>(i * 3 % 7);
      on_host = {.samples = pixels.data(),
                 .labels = labels.data(),
                 .ids = by_id ? ids.data() : nullptr,
                 .keys = keys.data(),
                 .size = n};
      on_device = {.samples = device_pixels.emplace_back(*test.device, pixels).data(),
                   .labels = device_numbers.emplace_back(*test.device, labels).data(),
                   .ids = by_id ? device_numbers.emplace_back(*test.device, ids).data() : nullptr,
                   .keys = device_numbers.emplace_back(*test.device, keys).data(),
                   .size = n};
    }

    std::vector<uint8_t> pixels;
    std::vector<int32_t> ids, keys, labels;
    std::vector<OnDevice<uint8_t>> device_pixels;
    std::vector<OnDevice<int32_t>> device_numbers;
    DeviceBatch on_host, on_device;
  };
};
INSTANTIATE_TEST_SUITE_P(, Mix, ::testing::ValuesIn(backends_where(is_compared)), kBackendName);

// The values are exact.
TEST_P(Mix, NormalizeErasesBoxesAndMixesPartners) {
  struct Images {
    int64_t n;
    ImageShape image, part;
    On on = On::every;
  };
  const Images images[] = {{1, {7, 8, 3}, {7, 8, 3}},
                           {17, {7, 8, 3}, {5, 7, 3}},
                           {3, {28, 28, 1}, {28, 28, 1}},
                           {5, {6, 7, 19}, {6, 7, 19}},
                           {128, {28, 28, 3}, {28, 28, 3}, On::gpu}};
  for (const auto& [n, image, part, on] : images)
    for (const bool by_id : {false, true})
      for (const MixCase& c : kMixCases) {
        if (!backend.runs(on)) continue;
        SCOPED_TRACE(fmt::format("{} of {}x{}x{}, by id {}, {}", n, image.h, image.w, image.c, by_id, c.name));
        MixMemory memory(*this, n, image.elements(), by_id);
        const PixelScale by_channel{{0.0171f, 0.0175f, 0.0174f}, {-2.118f, -2.036f, -1.804f}},
            alike{{0.01f, 0.01f, 0.01f}, {-0.5f, -0.5f, -0.5f}};
        const PixelScale& scale = image.c == 3 ? by_channel : alike;
        const OnDevice<uint32_t> on_epoch(*device, {c.epoch});
        const OnDevice<BatchMix> on_mix(*device, {c.mix});
        Augmentation augmentation = c.augmentation;
        augmentation.epoch = &c.epoch;
        if (c.mixed) memory.on_host.mix = &c.mix, memory.on_device.mix = on_mix.data();
        const Shape shape{n, part};
        Values expected(shape.elements());
        reference->normalize(memory.on_host, image, scale, augmentation, on_host(expected, shape));
        augmentation.epoch = on_epoch.data();
        each_setup([&] {
          const auto x = unwritten(shape);
          ops->normalize(memory.on_device, image, scale, augmentation, x.tensor());
          expect_within(0, x.values(), rounded(expected, type), "x");
          expect_zero(x.loaded().padding, "x");
        });
      }
}

// Of many samples, half are erased; a box has from 2 % to 33 % of the area, to rounding, and a ratio from 0.3 to 3.3.
TEST_P(Mix, ErasedBoxesHaveTheRangesOfRandomErasing) {
  constexpr int64_t kSamples = 400, kSide = 32;
  const Shape shape{kSamples, {kSide, kSide, 1}};
  const std::vector<uint8_t> pixels(kSide * kSide, 255);
  const auto on_pixels = on_device(pixels);
  std::vector<int32_t> keys(kSamples);
  for (int64_t i = 0; i < kSamples; ++i) keys[i] = static_cast<int32_t>(i);
  const auto on_keys = on_device(keys), on_ids = on_device(std::vector<int32_t>(kSamples, 0));
  const auto x = unwritten(shape);
  ops->normalize({.samples = on_pixels.data(), .ids = on_ids.data(), .keys = on_keys.data(), .size = kSamples},
                 shape.image, {}, {.erase = 0.5f, .seed = 9}, x.tensor());
  const Values values = x.values();
  int erased = 0;
  double area = 0;
  for (int64_t n = 0; n < kSamples; ++n) {
    int64_t zeros = 0, top = kSide, bottom = 0, left = kSide, right = 0;
    for (int64_t e = 0; e < kSide * kSide; ++e)
      if (values[n * kSide * kSide + e] == 0) {
        ++zeros;
        top = std::min(top, e / kSide), bottom = std::max(bottom, e / kSide + 1);
        left = std::min(left, e % kSide), right = std::max(right, e % kSide + 1);
      }
    if (zeros == 0) continue;
    ++erased;
    const auto h = static_cast<double>(bottom - top), w = static_cast<double>(right - left);
    EXPECT_EQ(static_cast<double>(zeros), h * w) << "a box";
    EXPECT_LE((h - 0.5) * (w - 0.5), 0.33 * kSide * kSide);
    EXPECT_GE((h + 0.5) * (w + 0.5), 0.02 * kSide * kSide);
    EXPECT_LE((h - 0.5) / (w + 0.5), 3.3);
    EXPECT_LE((w - 0.5) / (h + 0.5), 1 / 0.3);
    area += static_cast<double>(zeros) / (kSide * kSide);
  }
  EXPECT_NEAR(erased, kSamples / 2, 4 * std::sqrt(kSamples / 4.0));
  EXPECT_NEAR(area / erased, 0.175, 4 * 0.09 / std::sqrt(erased));
}

TEST_P(Mix, CrossEntropyHasTwoLabelsOrWeights) {
  struct Loss {
    float lambda;  // 1: no mix
    float smoothing;
    bool weighted;
  };
  const Loss losses[] = {{0.3f, 0, false}, {0.8f, 0.1f, false}, {1, 0, true}};
  for (const auto& [n, classes] : {std::pair<int64_t, int64_t>{1, 7}, {17, 7}, {37, 10}, {6, 40}, {300, 1000}})
    for (const auto& [lambda, smoothing, weighted] : losses)
      for (const bool by_id : {false, true}) {
        SCOPED_TRACE(fmt::format("{} x {}, lambda {}, smoothing {}, by id {}", n, classes, lambda, smoothing, by_id));
        MixMemory memory(*this, n, 1, by_id);
        const BatchMix mix{.lambda = lambda};
        const OnDevice<BatchMix> on_mix(*device, {mix});
        if (lambda < 1) memory.on_host.mix = &mix, memory.on_device.mix = on_mix.data();
        Values weights(classes);
        for (int64_t k = 0; k < classes; ++k) weights[k] = 0.25f * static_cast<float>(k % 7 + 1);
        const auto on_weights = OnDevice<float>(*device, weights);
        if (weighted) memory.on_host.class_weights = weights.data(), memory.on_device.class_weights = on_weights.data();
        const Shape shape{n, {1, 1, classes}};
        Values z = random_values(shape.elements(), n), d(shape.elements()), stats(2);
        for (float& v : z) v *= 4;
        z = rounded(z, type);
        reference->softmax_cross_entropy_backward(on_host(z, shape), memory.on_host, 0.25f, smoothing,
                                                  on_host(d, shape), stats.data(), Gradient::overwrite);
        std::vector<Format> formats = backend.formats;
        std::erase_if(formats, [](Format f) { return f.kind == Format::Kind::blocked_channels; });
        each_setup(formats, {0}, [&] {
          const auto logits = filled(shape, z);
          const auto found = unwritten(2);
          ops->softmax_cross_entropy_backward(logits.tensor(), memory.on_device, 0.25f, smoothing, logits.tensor(),
                                              found.data(), Gradient::overwrite);
          expect_within(1e-5, {found.values()[0]}, {stats[0]}, "loss");
          EXPECT_EQ(found.values()[1], stats[1]);
          expect_activations(logits.values(), d, "dlogits");
          expect_zero(logits.loaded().padding, "dlogits");
        });
      }
}

}  // namespace
}  // namespace ddp::testing
