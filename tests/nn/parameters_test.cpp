#include "nn/parameters.h"

#include "nn/models.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace ddp {
namespace {

TEST(Parameters, StartAtMultiplesOf64BytesWithoutOverlap) {
  const auto parameters = parameters_of(make_model("lenet", {28, 28, 1}, 10));
  int64_t end = 0;
  for (const Parameter& p : parameters) {
    EXPECT_EQ(p.offset % 16, 0) << p.name;
    EXPECT_GE(p.offset, end) << p.name;
    EXPECT_LT(p.offset, end + 16) << p.name;
    end = p.offset + p.count;
  }
  EXPECT_EQ(flat_count(parameters), (end + 15) / 16 * 16);
}

// The conversion is a permutation in both directions. Spot values follow the definition of the layouts.
TEST(Parameters, ConvertToAndFromPytorchLayout) {
  const auto parameters = parameters_of(make_model("lenet", {28, 28, 1}, 10));
  std::vector<float> flat(flat_count(parameters));
  for (const Parameter& p : parameters)
    std::iota(flat.begin() + p.offset, flat.begin() + p.offset + p.count, static_cast<float>(p.offset));
  std::vector<float> back(flat.size());
  for (const Parameter& p : parameters) {
    const auto tensor = to_pytorch(p, flat);
    from_pytorch(p, tensor, back);
    if (p.name == "3.weight") {  // [o][h][w][i] of 50 x 5 x 5 x 20
      const int64_t o = 7, i = 11, h = 2, w = 4;
      EXPECT_EQ(tensor[((o * 20 + i) * 5 + h) * 5 + w], flat[p.offset + ((o * 5 + h) * 5 + w) * 20 + i]);
    }
    if (p.name == "7.weight") {  // columns are 4 x 4 x 50 here, 50 x 4 x 4 in PyTorch
      const int64_t o = 90, c = 33, h = 1, w = 3;
      EXPECT_EQ(tensor[o * 800 + (c * 4 + h) * 4 + w], flat[p.offset + o * 800 + (h * 4 + w) * 50 + c]);
    }
  }
  EXPECT_EQ(back, flat);
}

// The columns of a linear layer refer to the image before the flatten, also with layers in between that keep the
// position of each feature.
TEST(Parameters, LinearColumnsFollowTheImageThroughDropout) {
  const Network plain = Network("plain", {3, 4, 5}).flatten().linear(2);
  const Network dropped = Network("dropped", {3, 4, 5}).flatten().dropout(0.5f).relu().linear(2);
  EXPECT_EQ(parameters_of(plain)[0].in, (ImageShape{3, 4, 5}));
  EXPECT_EQ(parameters_of(dropped)[0].in, (ImageShape{3, 4, 5}));
}

}  // namespace
}  // namespace ddp
