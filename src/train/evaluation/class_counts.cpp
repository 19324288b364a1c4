#include "train/evaluation/class_counts.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace ddp {
namespace {

// A double holds each whole number up to 2^53.
void sum_exactly(std::span<int64_t> counts, Communicator& communicator) {
  constexpr size_t kChunk = size_t{1} << 16;
  std::vector<double> chunk;
  for (; !counts.empty(); counts = counts.subspan(chunk.size())) {
    chunk.assign(counts.begin(), counts.begin() + static_cast<int64_t>(std::min(kChunk, counts.size())));
    communicator.all_reduce_host(chunk);
    std::ranges::transform(chunk, counts.begin(), [](double value) { return std::llround(value); });
  }
}

std::optional<double> quotient(int64_t a, int64_t b) {
  if (b == 0) return std::nullopt;
  return static_cast<double>(a) / static_cast<double>(b);
}

}  // namespace

ClassCounts::ClassCounts(int64_t classes) : classes_(classes), counts_(3 * classes + 1) {
  DDP_EXPECT(classes > 0);
  if (classes <= kMostInMatrix) matrix_.resize(classes * classes);
}

void ClassCounts::add(int32_t label, const RankedClass& ranked) {
  DDP_EXPECT(label >= 0 && label < classes_);
  ++counts_[label];
  if (ranked.label_rank < kTop) ++counts_.back();
  if (ranked.best < 0 || ranked.best >= classes_) return;
  ++counts_[classes_ + ranked.best];
  if (ranked.best == label) ++counts_[2 * classes_ + label];
  if (has_matrix()) ++matrix_[label * classes_ + ranked.best];
}

void ClassCounts::sum_over_ranks(Communicator& communicator) {
  sum_exactly(counts_, communicator);
  sum_exactly(matrix_, communicator);
}

int64_t ClassCounts::samples() const {
  return std::accumulate(counts_.begin(), counts_.begin() + classes_, int64_t{0});
}

int64_t ClassCounts::correct() const {
  return std::accumulate(counts_.begin() + 2 * classes_, counts_.end() - 1, int64_t{0});
}

int64_t ClassCounts::count(int64_t label, int64_t predicted) const {
  DDP_EXPECT(has_matrix() && label >= 0 && label < classes_ && predicted >= 0 && predicted < classes_);
  return matrix_[label * classes_ + predicted];
}

ClassFigures ClassCounts::figures(int64_t k) const {
  DDP_EXPECT(k >= 0 && k < classes_);
  const int64_t samples = counts_[k], predicted = counts_[classes_ + k], correct = counts_[2 * classes_ + k];
  return {.samples = samples,
          .precision = quotient(correct, predicted),
          .recall = quotient(correct, samples),
          .f1 = quotient(2 * correct, samples + predicted)};
}

double ClassCounts::macro_f1() const {
  double sum = 0;
  int64_t used = 0;
  for (int64_t k = 0; k < classes_; ++k)
    if (const auto f1 = figures(k).f1) {
      sum += *f1;
      ++used;
    }
  return used > 0 ? sum / static_cast<double>(used) : 0;
}

std::optional<double> ClassCounts::top5_accuracy() const {
  if (classes_ <= kTop) return std::nullopt;
  return quotient(counts_.back(), samples());
}

}  // namespace ddp
