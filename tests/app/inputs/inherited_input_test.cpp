#include "app/inputs/inherited_input.h"

#include "core/error.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace ddp {
namespace {

using OptionValues = std::map<std::string, std::string>;
using Kind = TransformConfig::Kind;

ModelInfo cropped() {
  return {.model = "torchvision-resnet18",
          .image = {176, 176, 3},
          .classes = 3,
          .class_names = {"ant", "bee", "cat"},
          .resize = 232,
          .interpolation = Interpolation::bicubic,
          .pixel_scale = pixel_scale_of(kImageNetMean, kImageNetStd)};
}

const OptionValues kPixelOptions = {{"--mean", "0.485,0.456,0.406"}, {"--std", "0.229,0.224,0.225"}};

OptionValues joined(OptionValues values, const OptionValues& more) {
  values.insert(more.begin(), more.end());
  return values;
}

TEST(CompareVocabularies, WarnsOfAnotherOne) {
  ModelInfo info{.model = "gpt-tiny", .image = {64, 1, 1}, .classes = 257, .sequence_length = 64};
  EXPECT_EQ(compare_vocabularies(info, 5, "f"), "");
  info.vocabulary_hash = 5;
  EXPECT_EQ(compare_vocabularies(info, 5, "f"), "");
  EXPECT_EQ(compare_vocabularies(info, std::nullopt, "f"), "");
  EXPECT_EQ(compare_vocabularies(info, 6, "f"),
            "f: its vocabulary has the hash 0000000000000005, and that of this run 0000000000000006: the same number "
            "means another token");
}

TEST(InheritedInput, IsThatOfTheFilesNetwork) {
  const OptionValues sizes = {{"--val-crop-size", "176"}, {"--val-resize-size", "232"}, {"--interpolation", "bicubic"}};
  EXPECT_EQ(inherited_input(cropped(), true, {}, "f"), joined(kPixelOptions, sizes));
  EXPECT_EQ(inherited_input(cropped(), false, {}, "f"), kPixelOptions);
  ModelInfo info = cropped();
  info.kind = Kind::stretch;
  EXPECT_EQ(inherited_input(info, true, {}, "f"),
            joined(kPixelOptions,
                   {{"--train-transform", "stretch"}, {"--train-crop-size", "176"}, {"--interpolation", "bicubic"}}));
  info.kind = Kind::none;
  EXPECT_EQ(inherited_input(info, true, {}, "f"), kPixelOptions);
  info.pixel_scale = {};
  EXPECT_EQ(inherited_input(info, true, {}, "f"), (OptionValues{{"--mean", "none"}}));
}

TEST(InheritedInput, GivesWayToTheUser) {
  const OptionValues sizes = {{"--val-crop-size", "176"}, {"--val-resize-size", "232"}};
  EXPECT_EQ(inherited_input(cropped(), true, {{"--mean", "measured"}, {"--interpolation", "nearest"}}, "f"), sizes);
  for (const char* size : {"--train-crop-size", "--val-crop-size", "--val-resize-size", "--train-transform"})
    EXPECT_EQ(inherited_input(cropped(), true, {{size, "64"}}, "f"), kPixelOptions) << size;
}

// Scale and shift come back with the same bits, also of measured values and of one channel.
TEST(InheritedInput, HasTheBitsOfTheFile) {
  for (const double m : {0.49139968, 1.0 / 3, 0.0, 0.4914}) {
    for (const int64_t channels : {1, 3}) {
      ModelInfo info = cropped();
      info.image.c = channels;
      info.pixel_scale = pixel_scale_of({m, m / 2, m / 3}, {0.24703233, 0.1 + m / 7, 0.3});
      const OptionValues values = inherited_input(info, true, {}, "f");
      const auto numbers = [&](const char* name) {
        std::vector<double> result;
        std::istringstream stream(values.at(name));
        for (std::string part; std::getline(stream, part, ',');) result.push_back(std::stod(part));
        EXPECT_EQ(std::ssize(result), channels);
        result.resize(3, 1);
        return result;
      };
      const PixelScale back = pixel_scale_of(numbers("--mean"), numbers("--std"));
      for (int64_t c = 0; c < channels; ++c) {
        EXPECT_EQ(back.scale[c], info.pixel_scale.scale[c]);
        EXPECT_EQ(back.shift[c], info.pixel_scale.shift[c]);
      }
    }
  }
}

TEST(InheritedInput, OfNoPixelsIsRefused) {
  ModelInfo info = cropped();
  info.pixel_scale.shift[1] = 40;
  try {
    inherited_input(info, true, {}, "w.safetensors");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::data);
    EXPECT_NE(std::string(e.what()).find("w.safetensors: its metadata give the mean 0.485,-8.96"), std::string::npos)
        << e.what();
  }
}

// What a strict start says of these classes: an error, a warning or nothing.
std::string said(const std::vector<std::string>& names, const ModelInfo& info = cropped()) {
  try {
    return compare_classes(info, names, "f");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::model);
    return std::string("error: ") + e.what();
  }
}

TEST(CompareClasses, EqualNamesHaveEqualNumbers) {
  EXPECT_EQ(said({"ant", "bee", "cat"}), "");
  EXPECT_EQ(said({"ant", "bee"}), "");  // the shapes do not fit
  ModelInfo unnamed = cropped();
  unnamed.class_names = {};
  EXPECT_EQ(said({"x", "y", "z"}, unnamed), "");
  EXPECT_EQ(said({"ant", "cat", "bee"}),
            "error: f: its network has classes of the data under other numbers: class 1 is bee there and cat here; add "
            "--new-head, which begins the last layer new");
  EXPECT_EQ(said({"ant", "zebra", "bee"}).substr(0, 60),
            "error: f: its network has classes of the data under other nu");
  EXPECT_EQ(said({"dog", "eel", "fly"}),
            "error: f: its last layer fits by accident, because it has as many classes as the data, but none of these: "
            "class 0 is ant there and dog here; add --new-head, which begins the last layer new");
  EXPECT_EQ(
      said({"ant", "Bee", "cat"}),
      "f: 1 of its 3 classes have other names: class 1 is bee there and Bee here; the last layer goes on with its "
      "weights, unless --new-head begins it new");
}

TEST(CompareClasses, ComparesNamesAsTheyAreStored) {
  ModelInfo info = cropped();
  info.class_names[1] = "caf\\xE9";
  EXPECT_EQ(said({"ant", "caf\xe9", "cat"}, info), "");
}

}  // namespace
}  // namespace ddp
