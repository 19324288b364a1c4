// How often a network took one class for another, over the samples of an evaluation, and the figures that follow: of
// each class precision, recall and F1. All counts are whole numbers, so the order of the samples and the number of
// ranks change nothing.
#pragma once

#include "comm/communicator.h"
#include "ops/ranked_class.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace ddp {

// Of one class. Where a quotient has no samples to divide by, it is none.
struct ClassFigures {
  int64_t samples = 0;                   // of this class
  std::optional<double> precision = {};  // share of the samples predicted as this class that are of it
  std::optional<double> recall = {};     // share of the samples of this class that are predicted as it
  std::optional<double> f1 = {};         // 2 correct / (samples + predicted); none: neither samples nor predictions
  friend bool operator==(const ClassFigures&, const ClassFigures&) = default;
};

class ClassCounts {
 public:
  static constexpr int64_t kMostInMatrix = 2048;  // classes: the matrix has 32 MiB then
  static constexpr int32_t kTop = 5;

  explicit ClassCounts(int64_t classes);

  // Counts a sample of class `label`. A prediction that is no class is wrong, and counts in no column.
  void add(int32_t label, const RankedClass& ranked);
  // Adds the counts of all ranks, exactly. Collective; all ranks have the same number of classes.
  void sum_over_ranks(Communicator& communicator);

  int64_t classes() const { return classes_; }
  int64_t samples() const;
  int64_t correct() const;

  // Samples of class `label` that were predicted as class `predicted`. Only with a matrix.
  int64_t count(int64_t label, int64_t predicted) const;
  bool has_matrix() const { return !matrix_.empty(); }

  ClassFigures figures(int64_t k) const;
  // The mean F1 of the classes that have samples or predictions, as scikit-learn's f1_score(average="macro",
  // zero_division=0). 0 without samples.
  double macro_f1() const;
  // Share of the samples whose class is among the five most probable; none where there are five classes or fewer.
  std::optional<double> top5_accuracy() const;

 private:
  const int64_t classes_;
  // Samples, predictions and correct predictions of each class, then the top-5 count: 3 classes + 1 values.
  std::vector<int64_t> counts_;
  std::vector<int64_t> matrix_;  // row: class; column: prediction; empty above kMostInMatrix
};

}  // namespace ddp
