#include "app/inputs/options_fit_data.h"

#include "core/error.h"

namespace ddp {
namespace {

void require_options_fit_tokens(const DataConfig& config) {
  const InputConfig &input = config.input, defaults;
  const auto refuse = [](bool given, const char* name) {
    require(!given, Exit::usage, "{} needs images; the data set is tokens", name);
  };
  refuse(input.transform != defaults.transform, "--train-transform");
  refuse(input.train_crop > 0 || input.val_crop > 0 || input.val_resize > 0, "a size of a crop or resize");
  refuse(input.rrc_scale != defaults.rrc_scale || input.rrc_ratio != defaults.rrc_ratio, "--rrc-scale or --rrc-ratio");
  refuse(input.interpolation != defaults.interpolation, "--interpolation");
  refuse(input.crop_padding > 0, "--crop-padding");
  refuse(input.hflip.has_value() || input.alternate_flip, "--hflip");
  refuse(input.auto_augment != defaults.auto_augment, "--auto-augment");
  refuse(input.random_erase > 0, "--random-erase");
  refuse(input.pixels.kind != defaults.pixels.kind, "--mean");
  refuse(input.channels != 0, "--channels");
  refuse(!input.exif, "--exif ignore");
  refuse(input.alpha != defaults.alpha, "--alpha");
  refuse(config.check != CheckData::automatic, "--check-data");
  require(!config.skip_broken, Exit::usage, "--on-error skip needs pictures; the data set is tokens");
}

}  // namespace

void require_options_fit(const DataConfig& config, const std::string& kind) {
  const InputConfig& input = config.input;
  const auto refuse = [&](bool given, const char* name, const char* why) {
    require(!given, Exit::usage, "{} {}; the data set is {}", name, why, kind);
  };
  if (config.evaluated)
    require(config.evaluated->tokens == has_tokens(kind), Exit::model,
            "the network reads {}, and the data set {} has {}", config.evaluated->tokens ? "tokens" : "images", kind,
            has_tokens(kind) ? "tokens" : "images");
  refuse(config.coarse_labels && kind != "cifar100", "--coarse-labels", "needs --dataset cifar100");
  refuse(!config.labels.empty() && kind != "csv", "--labels", "needs --dataset csv or auto");
  refuse(config.labels.empty() && kind == "csv", "--dataset csv", "needs --labels FILE.csv");
  refuse((is_cifar(kind) || has_pictures(kind) || has_tokens(kind)) && config.path.empty(), "--dataset",
         "needs --data-path FOLDER");
  if (has_tokens(kind)) return require_options_fit_tokens(config);
  refuse(config.sequence_length > 0, "--sequence-length", "needs --dataset tokens");
  refuse(config.vocabulary_size > 0, "--vocab-size", "needs --dataset tokens");
  refuse(!config.vocabulary.empty(), "--vocabulary", "needs --dataset tokens");
  refuse(config.token_type.has_value(), "--token-type", "needs --dataset tokens");
  if (has_pictures(kind)) return;
  const char* const why = "needs a folder of pictures or --labels";
  if (input.auto_augment == AutoAugmentConfig::Policy::none) {
    refuse(config.workers > 0, "--workers", "needs a folder of pictures, --labels or --auto-augment");
    refuse(input.interpolation != Interpolation::bilinear, "--interpolation",
           "needs a folder of pictures, --labels or --auto-augment");
  }
  refuse(config.val_split > 0, "--val-split", why);
  refuse(config.skip_broken, "--on-error skip", why);
  refuse(config.check != CheckData::automatic, "--check-data", why);
  refuse(input.channels != 0, "--channels", why);
  refuse(!input.exif && !config.evaluated, "--exif ignore", why);
  refuse(input.alpha != Alpha::drop, "--alpha", why);
  refuse(input.train_crop > 0 || input.val_crop > 0 || input.val_resize > 0, "a size of a crop or resize", why);
  refuse(input.transform.value_or(TransformConfig::Kind::none) != TransformConfig::Kind::none, "--train-transform",
         why);
  const InputConfig defaults;
  refuse(input.rrc_scale != defaults.rrc_scale || input.rrc_ratio != defaults.rrc_ratio, "--rrc-scale or --rrc-ratio",
         why);
}

}  // namespace ddp
