#include "app/run/single_values.h"

#include "nn/models.h"

#include <gtest/gtest.h>

#include <string>

namespace ddp {
namespace {

// Its batch norms in layer4 have 1 x 1 positions on images of 32 x 32.
Network resnet(int64_t size = 32) { return make_model("torchvision-resnet18", {size, size, 3}, 10); }

std::string explained(const Network& network, const BatchDivision& division) {
  const auto found = find_single_value(network, division);
  return found ? explain(*found, division) : "none";
}

BatchDivision divided(int64_t samples, int64_t batch, std::vector<double> weights = {1}) {
  return {.samples = samples, .batch = batch, .rank_weights = std::move(weights)};
}

TEST(SingleValues, OfALastBatchAreNamedWithTheRemedy) {
  EXPECT_EQ(explained(resnet(), divided(33, 16)),
            "batch norm layer4.0.downsample.1 normalises a single value in the last step of each epoch: rank 0 has one "
            "sample of "
            "the batch of 1, with 1 x 1 positions there; the value becomes 0, so no layer before it learns from that "
            "sample; give another --batch-size, such as 17");
  // Two samples are one for each of two ranks. Synchronized, the batch norm has both.
  EXPECT_EQ(explained(resnet(), divided(34, 16, {1, 1})),
            "batch norm layer4.0.downsample.1 normalises a single value in the last step of each epoch: rank 0 has one "
            "sample of "
            "the batch of 2, with 1 x 1 positions there; the value becomes 0, so no layer before it learns from that "
            "sample; give --sync-bn or another --batch-size, such as 17");
}

TEST(SingleValues, OfEveryStepAreTold) {
  const auto all = find_single_value(resnet(), divided(64, 3, {1, 1}));  // 2 and 1
  ASSERT_TRUE(all);
  EXPECT_TRUE(all->every_step && all->sync_bn_helps);
  EXPECT_EQ(all->rank, 1);
  EXPECT_EQ(all->batch, 3);
  EXPECT_EQ(all->another_batch, 4);

  const auto weighted = find_single_value(resnet(), divided(100, 10, {1, 9, 90}));
  ASSERT_TRUE(weighted);
  EXPECT_TRUE(weighted->every_step);
  EXPECT_EQ(weighted->rank, 1);

  for (const bool sync_bn : {false, true}) {
    BatchDivision alone = divided(64, 1);
    alone.sync_bn = sync_bn;
    EXPECT_EQ(explained(resnet(), alone),
              "batch norm layer4.0.downsample.1 normalises a single value in every step: rank 0 has one sample of the "
              "batch of 1, with 1 x 1 positions there; the value becomes 0, so no layer before it learns from that "
              "sample; give another --batch-size, such as 2");
  }
  EXPECT_EQ(explained(resnet(), divided(1, 256)).find("such as"), std::string::npos);
}

TEST(SingleValues, OfMicroBatchesAreTold) {
  BatchDivision division = divided(64, 8, {1, 1});
  division.micro_batches = 4;
  const std::string text = explained(resnet(), division);
  EXPECT_NE(text.find("one sample of the batch of 8 in 4 micro-batches"), std::string::npos) << text;
  EXPECT_NE(text.find("give --sync-bn or another --batch-size, such as 16"), std::string::npos) << text;
  division.sync_bn = true;
  EXPECT_EQ(explained(resnet(), division), "none");
  division.batch = 4;
  EXPECT_NE(explained(resnet(), division).find("all ranks have together one sample of the batch of 4"),
            std::string::npos);
}

TEST(SingleValues, AreNoneWithSeveralSamplesOrPositionsOrWithoutBatchNorm) {
  EXPECT_EQ(explained(resnet(), divided(32, 16)), "none");
  EXPECT_EQ(explained(resnet(), divided(34, 16)), "none");
  EXPECT_EQ(explained(resnet(), divided(35, 16, {1, 1, 1, 1, 1, 1, 1, 1})).substr(0, 10), "batch norm");
  EXPECT_EQ(explained(resnet(64), divided(33, 1)), "none");
  EXPECT_EQ(explained(make_model("lenet", {28, 28, 1}, 10), divided(33, 1)), "none");
  EXPECT_EQ(explained(resnet(), divided(0, 16)), "none");
}

}  // namespace
}  // namespace ddp
