#include "train/evaluation/class_counts.h"

#include "tests/comm/ranks.h"

#include <gtest/gtest.h>

#include <vector>

namespace ddp::testing {
namespace {

struct Seen {
  int32_t label;
  RankedClass ranked;
};

// Class 2 has no samples, class 3 is never predicted, class 4 neither. The last sample's prediction is no class.
const std::vector<Seen> kSeen = {{0, {0, 0}}, {0, {0, 0}}, {0, {2, 1}}, {1, {1, 0}},
                                 {1, {0, 4}}, {3, {0, 2}}, {3, {-1, 4}}};

ClassCounts counts_of(int64_t classes, const std::vector<Seen>& seen) {
  ClassCounts counts(classes);
  for (const Seen& s : seen) counts.add(s.label, s.ranked);
  return counts;
}

// The expected figures are worked out by hand.
void expect_figures(const ClassCounts& counts) {
  EXPECT_EQ(counts.samples(), 7);
  EXPECT_EQ(counts.correct(), 3);
  const std::vector<std::vector<int64_t>> matrix = {
      {2, 0, 1, 0, 0}, {1, 1, 0, 0, 0}, {0, 0, 0, 0, 0}, {1, 0, 0, 0, 0}, {0, 0, 0, 0, 0}};
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t k = 0; k < 5; ++k) EXPECT_EQ(counts.count(i, k), matrix[i][k]) << i << " as " << k;
  EXPECT_EQ(counts.figures(0), (ClassFigures{3, 0.5, 2.0 / 3, 4.0 / 7}));
  EXPECT_EQ(counts.figures(1), (ClassFigures{2, 1.0, 0.5, 2.0 / 3}));
  EXPECT_EQ(counts.figures(2), (ClassFigures{0, 0.0, {}, 0.0}));
  EXPECT_EQ(counts.figures(3), (ClassFigures{2, {}, 0.0, 0.0}));
  EXPECT_EQ(counts.figures(4), (ClassFigures{0, {}, {}, {}}));
  EXPECT_DOUBLE_EQ(counts.macro_f1(), 13.0 / 42);  // the mean of four classes
}

TEST(ClassCounts, GiveTheFiguresOfEachClass) {
  const ClassCounts counts = counts_of(5, kSeen);
  expect_figures(counts);
  EXPECT_FALSE(counts.top5_accuracy());
  EXPECT_EQ(ClassCounts(3).macro_f1(), 0);
}

TEST(ClassCounts, AddUpOverRanks) {
  run_ranks(3, [](Communicator& communicator) {
    std::vector<Seen> mine;  // rank 2 has none
    for (size_t i = 0; i < kSeen.size(); ++i)
      if (static_cast<int>(i % 2) == communicator.rank()) mine.push_back(kSeen[i]);
    ClassCounts counts = counts_of(5, mine);
    counts.sum_over_ranks(communicator);
    expect_figures(counts);
  });
}

TEST(ClassCounts, OfSixClassesFiveAreTheTop) {
  EXPECT_EQ(counts_of(6, {{0, {0, 0}}, {5, {0, 4}}, {4, {1, 5}}, {4, {1, 5}}}).top5_accuracy(), 0.5);
}

// More values than are summed at once.
TEST(ClassCounts, HaveNoMatrixOfManyClasses) {
  constexpr int32_t kLast = ClassCounts::kMostInMatrix - 1;
  run_ranks(2, [](Communicator& communicator) {
    ClassCounts most(kLast + 1), more(kLast + 2);
    most.add(kLast, {kLast - 1, 1});
    more.add(kLast + 1, {kLast + 1, 0});
    most.sum_over_ranks(communicator);
    more.sum_over_ranks(communicator);
    EXPECT_EQ(most.count(kLast, kLast - 1), 2);
    EXPECT_FALSE(more.has_matrix());
    EXPECT_EQ(more.figures(kLast + 1), (ClassFigures{2, 1.0, 1.0, 1.0}));
  });
}

}  // namespace
}  // namespace ddp::testing
