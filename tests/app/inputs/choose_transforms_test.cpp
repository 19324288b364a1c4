#include "app/inputs/choose_transforms.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace ddp {
namespace {

// A resume compares the texts, so transforms that differ must have different texts.
TEST(ChooseTransforms, DifferentSizesHaveDifferentTexts) {
  PictureFacts facts;
  facts.pictures = 2;
  facts.smallest = {300, 300};
  facts.largest = {500, 400};
  std::set<std::string> texts;
  int cases = 0;
  for (const auto kind :
       {TransformConfig::Kind::rrc, TransformConfig::Kind::resize_crop, TransformConfig::Kind::center})
    for (const int64_t crop : {224, 256})
      for (const int64_t val_crop : {224, 256})
        for (const int64_t resize : {0, 293, 300}) {
          InputConfig input;
          input.transform = kind;
          input.train_crop = crop;
          input.val_crop = val_crop;
          input.val_resize = resize;
          texts.insert(describe(transforms_of(input, facts, 0), {}));
          ++cases;
        }
  // 256 and 293 are the default sizes of the crops 224 and 256. Where both crops are 256, 0 means 293;
  // RandomResizedCrop has no size of training, so there 0 means 293 for each validation crop of 256.
  EXPECT_EQ(static_cast<int>(texts.size()), cases - 2 - 1 - 1);
}

TEST(ChooseTransforms, EachSettingHasItsText) {
  PictureFacts facts;
  facts.pictures = 2;
  facts.smallest = {300, 300};
  facts.largest = {500, 400};
  using Change = void (*)(InputConfig&, DecodeConfig&);
  const Change changes[] = {[](InputConfig&, DecodeConfig&) {},
                            [](InputConfig& i, DecodeConfig&) { i.transform = TransformConfig::Kind::stretch; },
                            [](InputConfig& i, DecodeConfig&) { i.rrc_scale[0] = 0.09; },
                            [](InputConfig& i, DecodeConfig&) { i.rrc_scale[1] = 0.99; },
                            [](InputConfig& i, DecodeConfig&) { i.rrc_ratio[0] = 0.76; },
                            [](InputConfig& i, DecodeConfig&) { i.rrc_ratio[1] = 1.5; },
                            [](InputConfig&, DecodeConfig& d) { d.interpolation = Interpolation::bicubic; },
                            [](InputConfig&, DecodeConfig& d) { d.interpolation = Interpolation::nearest; },
                            [](InputConfig&, DecodeConfig& d) { d.exif = false; },
                            [](InputConfig&, DecodeConfig& d) { d.alpha = Alpha::white; },
                            [](InputConfig&, DecodeConfig& d) { d.alpha = Alpha::black; }};
  std::set<std::string> texts;
  for (const Change change : changes) {
    InputConfig input;
    DecodeConfig decode;
    change(input, decode);
    texts.insert(describe(transforms_of(input, facts, 0), decode));
  }
  EXPECT_EQ(texts.size(), std::size(changes));
}

}  // namespace
}  // namespace ddp
