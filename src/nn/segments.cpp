#include "nn/segments.h"

#include <utility>

namespace ddp {
namespace {

using Part = SegmentStep::Part;

class SegmentList {
 public:
  // The segment of the next step: the open one, if both are sliced.
  Segment& next(bool sliced) {
    if (!open_ || !sliced) segments_.push_back({.sliced = sliced});
    open_ = sliced;
    return segments_.back();
  }
  int last() const { return static_cast<int>(segments_.size()) - 1; }
  void close() { open_ = false; }
  std::vector<Segment> take() { return std::move(segments_); }

 private:
  std::vector<Segment> segments_;
  bool open_ = false;  // whether the last segment takes more steps
};

// One pass. `sum` and `step` are the parts of a stage.
class PassPlanner {
 public:
  PassPlanner(size_t stages, Part sum, Part step) : sum_(sum), step_(step), sum_in_(stages, -1) {}

  void add_sum(int stage, bool sliced) {
    list_.next(sliced).steps.push_back({stage, sum_});
    sum_in_[static_cast<size_t>(stage)] = list_.last();
  }

  void add_step(int stage, bool sliced, bool sums) {
    if (!sums) {
      list_.next(sliced).steps.push_back({stage, step_});
      return;
    }
    const int& sum_in = sum_in_[static_cast<size_t>(stage)];
    if (sum_in < 0) add_sum(stage, sliced);
    if (sum_in == list_.last()) list_.close();
    Segment& segment = list_.next(sliced);
    segment.reduces.push_back(stage);
    segment.steps.push_back({stage, step_});
  }

  std::vector<Segment> take() { return list_.take(); }

 private:
  Part sum_, step_;
  SegmentList list_;
  std::vector<int> sum_in_;  // by stage: the segment that has its sum; -1: none yet
};

std::vector<Segment> forward_segments(std::span<const PlannedStage> stages) {
  PassPlanner planner(stages.size(), Part::sum, Part::forward);
  for (int i = 0; i < std::ssize(stages); ++i) {
    if (stages[i].view) continue;
    const bool sliced = stages[i].slices.forward > 0;
    planner.add_step(i, sliced, stages[i].sums);
    for (int j = i + 1; sliced && j < std::ssize(stages); ++j)  // sums of what this step writes
      if (stages[j].sums && stages[j].slices.forward > 0 && root_of(stages, stages[j].from) == i)
        planner.add_sum(j, true);
  }
  return planner.take();
}

std::vector<Segment> backward_segments(std::span<const PlannedStage> stages) {
  PassPlanner planner(stages.size(), Part::backward_sum, Part::backward);
  std::vector<int> readers(stages.size(), 0);
  for (const PlannedStage& stage : stages)
    for (const int input : {root_of(stages, stage.from), root_of(stages, stage.skip)})
      if (!stage.view && input >= 0) ++readers[static_cast<size_t>(input)];
  const auto sums_slices = [&](int i) {
    return i >= 0 && stages[i].has_gradient && stages[i].sums && stages[i].slices.backward > 0;
  };
  std::vector<bool> summed(stages.size(), false);
  for (int i = static_cast<int>(stages.size()) - 1; i >= 0; --i) {
    const PlannedStage& stage = stages[i];
    if (stage.view || !stage.has_gradient) continue;
    const bool sliced = stage.slices.backward > 0;
    if (sums_slices(i) && !summed[i]) {
      planner.add_sum(i, true);
      // The gradient of `skip` is complete with this sum if nothing else reads that value. The backward of this stage
      // reads the same gradient, so the sum of `skip` must not change it: that has no activation.
      const int skip = root_of(stages, stage.skip);
      if (sums_slices(skip) && readers[skip] == 1 && !stage.separates_skip && stages[skip].recomputes &&
          !stages[skip].saves_output) {
        planner.add_sum(skip, true);
        summed[skip] = true;
      }
    }
    planner.add_step(i, sliced, stage.sums);
  }
  return planner.take();
}

}  // namespace

int root_of(std::span<const PlannedStage> stages, int stage) {
  while (stage >= 0 && stages[stage].view) stage = stages[stage].from;
  return stage;
}

Segments plan_segments(std::span<const PlannedStage> stages) {
  return {forward_segments(stages), backward_segments(stages)};
}

}  // namespace ddp
