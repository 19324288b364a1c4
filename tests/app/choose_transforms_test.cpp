#include "app/choose_transforms.h"

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

}  // namespace
}  // namespace ddp
