#include "app/inputs/options_fit_data.h"

#include "tests/expect_error.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace ddp {
namespace {

using Change = std::function<void(DataConfig&)>;

DataConfig with(const Change& change) {
  DataConfig config{.path = "data"};
  change(config);
  return config;
}

TEST(OptionsFitData, RefuseThoseOfImagesWithTokens) {
  const std::vector<std::pair<const char*, Change>> options = {
      {"--coarse-labels", [](auto& c) { c.coarse_labels = true; }},
      {"--labels", [](auto& c) { c.labels = "labels.csv"; }},
      {"--train-transform", [](auto& c) { c.input.transform = TransformConfig::Kind::none; }},
      {"a size of a crop or resize", [](auto& c) { c.input.train_crop = 8; }},
      {"a size of a crop or resize", [](auto& c) { c.input.val_crop = 8; }},
      {"a size of a crop or resize", [](auto& c) { c.input.val_resize = 8; }},
      {"--rrc-scale or --rrc-ratio",
       [](auto& c) {
         c.input.rrc_scale = {0.2, 1};
       }},
      {"--rrc-scale or --rrc-ratio",
       [](auto& c) {
         c.input.rrc_ratio = {1, 1};
       }},
      {"--interpolation", [](auto& c) { c.input.interpolation = Interpolation::nearest; }},
      {"--crop-padding", [](auto& c) { c.input.crop_padding = 1; }},
      {"--hflip", [](auto& c) { c.input.hflip = 0; }},
      {"--hflip", [](auto& c) { c.input.alternate_flip = true; }},
      {"--auto-augment", [](auto& c) { c.input.auto_augment = AutoAugmentConfig::Policy::ra; }},
      {"--random-erase", [](auto& c) { c.input.random_erase = 0.1; }},
      {"--mean", [](auto& c) { c.input.pixels.kind = PixelStatistics::Kind::none; }},
      {"--channels", [](auto& c) { c.input.channels = 1; }},
      {"--exif ignore", [](auto& c) { c.input.exif = false; }},
      {"--alpha", [](auto& c) { c.input.alpha = Alpha::white; }},
      {"--check-data", [](auto& c) { c.check = CheckData::none; }},
      {"--on-error skip", [](auto& c) { c.skip_broken = true; }}};
  for (const auto& [name, change] : options) {
    SCOPED_TRACE(name);
    expect_error(Exit::usage, {std::string(name) + " needs ", "the data set is tokens"},
                 [&] { require_options_fit(with(change), "tokens"); });
  }
  expect_error(Exit::usage, {"--dataset needs --data-path"}, [&] { require_options_fit({}, "tokens"); });
  require_options_fit(with([](auto& c) {
                        c.sequence_length = c.vocabulary_size = c.train_samples = c.workers = 8;
                        c.token_type = TokenType::uint32;
                        c.val_split = 0.1;
                      }),
                      "tokens");
}

TEST(OptionsFitData, RefuseThoseOfTokensWithImages) {
  const std::vector<std::pair<const char*, Change>> options = {
      {"--sequence-length", [](auto& c) { c.sequence_length = 8; }},
      {"--vocab-size", [](auto& c) { c.vocabulary_size = 8; }},
      {"--vocabulary", [](auto& c) { c.vocabulary = "bytes"; }},
      {"--token-type", [](auto& c) { c.token_type = TokenType::uint16; }}};
  for (const char* kind : {"mnist", "folder", "cifar10"})
    for (const auto& [name, change] : options) {
      SCOPED_TRACE(name);
      expect_error(Exit::usage, {std::string(name) + " needs --dataset tokens; the data set is " + kind},
                   [&] { require_options_fit(with(change), kind); });
    }
}

TEST(OptionsFitData, NetworksReadTheirOwnKind) {
  const auto evaluated = [](bool tokens) {
    return with([&](auto& c) {
      c.evaluated = EvaluatedInput{.tokens = tokens};
      if (tokens) c.sequence_length = c.vocabulary_size = 8;
    });
  };
  expect_error(Exit::model, {"the network reads tokens, and the data set mnist has images"},
               [&] { require_options_fit(evaluated(true), "mnist"); });
  expect_error(Exit::model, {"the network reads images, and the data set tokens has tokens"},
               [&] { require_options_fit(evaluated(false), "tokens"); });
  require_options_fit(evaluated(true), "tokens");
}

}  // namespace
}  // namespace ddp
