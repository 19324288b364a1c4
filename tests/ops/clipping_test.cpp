#include "tests/ops/backend.h"

#include <map>

namespace ddp::testing {
namespace {

class Clipping : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(, Clipping, ::testing::ValuesIn(backends_where(runs_spans)), kBackendName);

TEST_P(Clipping, SumOfSquaresIsTheSameAtAnyNumberOfThreads) {
  std::vector<int64_t> counts = {1, 3, 63, 1000, 1025, 40001};
  counts.push_back(backend.cuda() ? 2'200'001 : 20'000'000);  // more than the grid; more than one piece a thread
  for (const int64_t count : counts) {
    const Values values = random_values(count, count);
    float squares = 0;
    reference->sum_of_squares(values.data(), count, &squares, Gradient::overwrite);
    std::map<int64_t, Values> first;  // of each offset
    each_setup({Format{}}, backend.offsets, [&] {
      const auto from = on_device(values), sum = unwritten(1), added = on_device(Values{3});
      ops->sum_of_squares(from.data(), count, sum.data(), Gradient::overwrite);
      ops->sum_of_squares(from.data(), count, added.data(), Gradient::add);
      expect_within(backend.sums, sum.values(), {squares}, "sum of squares");
      expect_close(added.values(), {sum.values()[0] + 3}, "added", backend.cuda() ? 0 : 1e-6);
      EXPECT_EQ(sum.values(), first.emplace(before, sum.values()).first->second);
    });
  }
}

TEST_P(Clipping, ScaleBoundsTheNorm) {
  const auto scale_of = [&](float squares, float limit, float earlier = 1) {
    const auto sum = on_device(Values{squares}), scale = on_device(Values{earlier});
    ops->clip_scale(sum.data(), limit, scale.data());
    return scale.values()[0];
  };
  EXPECT_EQ(scale_of(4, 3), 1);
  EXPECT_NEAR(scale_of(16, 1), 0.25, 1e-6);
  EXPECT_NEAR(scale_of(16, 1, 2), 0.25, 1e-6);  // of a gradient that is scaled by 2
  EXPECT_EQ(scale_of(4, 5, 2), 2);
  EXPECT_EQ(scale_of(0, 1), 1);
  EXPECT_EQ(scale_of(INFINITY, 1), 0);
  EXPECT_EQ(scale_of(NAN, 1), 1);
  for (const float squares : {0.3f, 350.0f, 7e5f})
    for (const float limit : {0.01f, 1e6f}) {
      float expected = 1;
      reference->clip_scale(&squares, limit, &expected);
      expect_close({scale_of(squares, limit)}, {expected}, "scale");
    }
}

TEST_P(Clipping, ExcludedSamplesCorrectTheGradient) {
  for (const float seen : {8.0f, 6.0f, 0.0f})
    for (const float earlier : {0.0f, 5.0f}) {
      const auto count = on_device(Values{seen}), scale = on_device(Values{8}), flag = on_device(Values{earlier});
      ops->correct_for_excluded(count.data(), -2, scale.data(), flag.data());
      EXPECT_EQ(scale.values()[0], seen == 6 ? 8.0f / 6 : 1.0f);
      EXPECT_EQ(flag.values()[0], seen == 0 && earlier == 0 ? -2.0f : earlier);
    }
}

}  // namespace
}  // namespace ddp::testing
