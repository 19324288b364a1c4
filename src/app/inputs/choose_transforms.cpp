#include "app/inputs/choose_transforms.h"

#include "app/inputs/input_names.h"
#include "core/error.h"

#include <fmt/format.h>

#include <algorithm>

namespace ddp {
namespace {

using Kind = TransformConfig::Kind;

constexpr int64_t kCrop = 224, kLargestAsIs = 224;

// Refuses options that have no effect on pictures of one size.
void require_used_as_they_are(const InputConfig& input) {
  const InputConfig defaults;
  const auto refuse = [](bool given, const char* name) {
    require(
        !given, Exit::usage,
        "{} has no effect: the pictures have one size and are used as they are; give another --train-transform, such "
        "as rrc, or leave the option out",
        name);
  };
  refuse(input.train_crop > 0, "--train-crop-size");
  refuse(input.val_crop > 0, "--val-crop-size");
  refuse(input.val_resize > 0, "--val-resize-size");
  refuse(input.rrc_scale != defaults.rrc_scale, "--rrc-scale");
  refuse(input.rrc_ratio != defaults.rrc_ratio, "--rrc-ratio");
  if (input.auto_augment == AutoAugmentConfig::Policy::none)
    refuse(input.interpolation != defaults.interpolation, "--interpolation");
}

}  // namespace

Transforms transforms_of(const InputConfig& input, const PictureFacts& facts, uint64_t seed) {
  const PictureSize size = facts.largest;
  const bool sized = input.train_crop > 0 || input.val_crop > 0;
  const bool small = facts.one_size() && size.w <= kLargestAsIs && size.h <= kLargestAsIs;
  const bool as_is = input.transform ? *input.transform == Kind::none : small && !sized;
  Transforms t;
  t.train.seed = seed;
  if (as_is) {
    require(facts.pictures > 0, Exit::usage, "--train-transform none needs --check-data headers or full");
    require(facts.one_size(), Exit::data,
            "--train-transform none needs pictures of one size; they have {} to {} x {} to {} pixels", facts.smallest.w,
            size.w, facts.smallest.h, size.h);
    require_used_as_they_are(input);
    t.train.kind = Kind::none;
    t.train.crop = size;
    t.validation = t.train;
    return t;
  }
  const int64_t crop = input.train_crop > 0 ? input.train_crop : input.val_crop > 0 ? input.val_crop : kCrop;
  const int64_t val_crop = input.val_crop > 0 ? input.val_crop : crop;
  const auto resize_for = [&](int64_t side) { return input.val_resize > 0 ? input.val_resize : (side * 8 + 6) / 7; };
  t.train.kind = input.transform.value_or(Kind::rrc);
  t.train.crop = {crop, crop};
  t.train.resize = resize_for(crop);
  const int64_t most = t.train.kind == Kind::rrc ? val_crop : std::max(crop, val_crop);
  require(resize_for(most) >= most, Exit::usage, "--val-resize-size {} is less than the crop's {}", resize_for(most),
          most);
  std::copy_n(input.rrc_scale.begin(), 2, t.train.scale.begin());
  std::copy_n(input.rrc_ratio.begin(), 2, t.train.ratio.begin());
  t.validation = t.train;
  t.validation.crop = {val_crop, val_crop};
  t.validation.resize = resize_for(val_crop);
  t.validation.kind = t.train.kind == Kind::stretch ? Kind::stretch : Kind::center;
  return t;
}

Transforms transforms_of(const EvaluatedInput& input, const PictureFacts& facts) {
  const TransformConfig& given = input.transform;
  if (given.kind == Kind::none) {
    require(facts.pictures > 0, Exit::usage,
            "this network does not resize pictures: give --check-data headers or full");
    require(facts.one_size() && facts.largest == given.crop, Exit::model,
            "the network was trained on images of {} x {} pixels, which are not resized; these have {} to {} x {} to "
            "{} pixels",
            given.crop.w, given.crop.h, facts.smallest.w, facts.largest.w, facts.smallest.h, facts.largest.h);
  }
  return {given, given};
}

std::string describe(const Transforms& t, const DecodeConfig& decode) {
  const TransformConfig& c = t.train;
  std::string text = fmt::format("{} {} x {}", name_in(kTransformNames, c.kind), c.crop.w, c.crop.h);
  if (c.kind == Kind::rrc)
    text += fmt::format(" scale {:g},{:g} ratio {:g},{:g}", c.scale[0], c.scale[1], c.ratio[0], c.ratio[1]);
  if (c.kind != Kind::none && c.kind != Kind::stretch)
    text += fmt::format(", validation resized to {}", t.validation.resize);
  if ((c.kind == Kind::resize_crop || c.kind == Kind::center) && c.resize != t.validation.resize)
    text += fmt::format(", training to {}", c.resize);
  if (!(t.validation.crop == c.crop))
    text += fmt::format(", validation cropped to {} x {}", t.validation.crop.w, t.validation.crop.h);
  if (decode.interpolation != Interpolation::bilinear)
    text += ", " + name_in(kInterpolationNames, decode.interpolation);
  if (!decode.exif) text += ", EXIF ignored";
  if (decode.alpha != Alpha::drop) text += ", on " + name_in(kAlphaNames, decode.alpha);
  return text;
}

}  // namespace ddp
