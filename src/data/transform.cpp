#include "data/transform.h"

#include "core/error.h"
#include "core/philox.h"

#include <algorithm>
#include <cmath>

namespace ddp {
namespace {

using Kind = TransformConfig::Kind;

// The random numbers of one picture in one epoch, in the order of the draws. A picture takes at most 64: its index
// selects 16 counters of four words.
class Draws {
 public:
  Draws(uint64_t seed, const SampleKey& key)
      : stream_(seed, Operation::picture_crop, static_cast<uint32_t>(key.epoch)),
        next_(static_cast<uint64_t>(key.index) * 64) {}

  float operator()() {
    const uint64_t number = next_++;
    return static_cast<float>(stream_.bits(number / 4).word[number % 4] >> 8) * 0x1p-24f;
  }

 private:
  RandomStream stream_;
  uint64_t next_;
};

// A whole number in [0, count), as floor(uniform * count).
int64_t position(float uniform, int64_t count) {
  return static_cast<int64_t>(static_cast<double>(uniform) * static_cast<double>(count));
}

// torchvision's Resize to one length: the shorter side gets it, the longer one is rounded down.
PictureSize resized_to(PictureSize picture, int64_t shorter) {
  const auto scaled = [&](int64_t side, int64_t other) { return std::max<int64_t>(1, shorter * side / other); };
  return picture.w <= picture.h ? PictureSize{shorter, scaled(picture.h, picture.w)}
                                : PictureSize{scaled(picture.w, picture.h), shorter};
}

// torchvision's CenterCrop: half of the rest, rounded to even.
int64_t centre(int64_t whole, int64_t part) { return std::lrint(static_cast<double>(whole - part) / 2); }

}  // namespace

Geometry geometry_of(const TransformConfig& config, PictureSize picture, const SampleKey& key) {
  const PictureSize crop = config.crop;
  const Box whole{0, 0, picture.w, picture.h}, all{0, 0, crop.w, crop.h};
  switch (config.kind) {
    case Kind::none: DDP_EXPECT(picture == crop); return {whole, crop, all};
    case Kind::stretch: return {whole, crop, all};
    case Kind::rrc: {
      Draws draws(config.seed, key);
      return {random_resized_crop(picture, config, std::ref(draws)), crop, all};
    }
    case Kind::resize_crop:
    case Kind::center: break;
  }
  const PictureSize resized = resized_to(picture, config.resize);
  Box window{centre(resized.w, crop.w), centre(resized.h, crop.h), crop.w, crop.h};
  if (config.kind == Kind::resize_crop) {
    Draws draws(config.seed, key);
    window.y = position(draws(), resized.h - crop.h + 1);
    window.x = position(draws(), resized.w - crop.w + 1);
  }
  return {whole, resized, window};
}

Box random_resized_crop(PictureSize picture, const TransformConfig& config, const std::function<float()>& uniform) {
  const auto between = [&](float low, float high) { return uniform() * (high - low) + low; };
  const auto share = [&](size_t i) { return static_cast<float>(config.scale[i]); };
  const auto log_ratio = [&](size_t i) { return std::log(static_cast<float>(config.ratio[i])); };
  const auto w = static_cast<double>(picture.w), h = static_cast<double>(picture.h);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = w * h * between(share(0), share(1));
    const double aspect = std::exp(between(log_ratio(0), log_ratio(1)));
    Box part{.w = std::lrint(std::sqrt(area * aspect)), .h = std::lrint(std::sqrt(area / aspect))};
    if (part.w < 1 || part.w > picture.w || part.h < 1 || part.h > picture.h) continue;
    part.y = position(uniform(), picture.h - part.h + 1);
    part.x = position(uniform(), picture.w - part.w + 1);
    return part;
  }
  Box part{.w = picture.w, .h = picture.h};
  if (w / h < config.ratio[0])
    part.h = std::clamp<int64_t>(std::lrint(w / config.ratio[0]), 1, picture.h);
  else if (w / h > config.ratio[1])
    part.w = std::clamp<int64_t>(std::lrint(h * config.ratio[1]), 1, picture.w);
  part.x = (picture.w - part.w) / 2;
  part.y = (picture.h - part.h) / 2;
  return part;
}

}  // namespace ddp
