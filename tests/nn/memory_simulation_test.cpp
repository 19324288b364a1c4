// Random graphs: runs the steps of a plan on a memory of tags, and checks that each step reads what was last written
// for it.
#include "nn/memory_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace ddp {
namespace {

using Part = SegmentStep::Part;

constexpr int64_t kSimulatedBatch = 16, kUnit = 64;  // bytes

class Graphs {
 public:
  explicit Graphs(unsigned seed) : random_(seed) {}

  // A chain with views, frozen stages in front, stages that read an earlier value too, and pairs of paths.
  std::vector<PlannedStage> draw() {
    std::vector<PlannedStage> stages;
    const int count = 3 + below(12), frozen = below(3);
    for (int i = 0; i < count; ++i) {
      PlannedStage stage{.bytes = kSimulatedBatch * kUnit * (1 + below(5)), .from = i - 1};
      const bool sliced = below(5) > 0;
      if (sliced) stage.slices = {int64_t{1} << below(4), int64_t{1} << below(5)};
      const int earlier = i > 1 ? below(i - 1) : -1;
      const int kind = below(6);
      if (kind == 0 && i > 0) {
        stage.view = true;
        stage.slices = {};
      } else if (kind <= 2) {  // a convolution
        stage.saves_input = stage.reads_gradient_twice = true;
        stage.saves_output = below(4) == 0;
      } else if (kind <= 4) {  // a batch norm
        stage.sums = stage.saves_input = true;
        stage.saves_output = below(2) == 0;
        if (earlier >= 0 && below(2) == 0) stage.skip = earlier;
        if (i > 1 && below(2) == 0) {  // two paths: only this stage reads the one before it
          stage.from = i - 2;
          stage.skip = i - 1;
        }
        stage.recomputes = stage.skip == LayerSpec::kNone && below(4) > 0;
      } else if (earlier >= 0) {  // a join
        stage.skip = earlier;
        stage.separates_skip = below(2) == 0;
        stage.saves_input = stage.separates_skip && below(2) == 0;
      }
      if (stage.skip >= 0 && root_of(stages, stage.skip) == root_of(stages, stage.from)) stage.skip = LayerSpec::kNone;
      if (stage.skip == LayerSpec::kNone) stage.separates_skip = false;
      if (stage.skip >= 0) stage.bytes = stages[static_cast<size_t>(root_of(stages, stage.skip))].bytes;  // one shape
      stage.has_gradient = i >= frozen;
      stages.push_back(stage);
    }
    return stages;
  }
  int below(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }

 private:
  std::mt19937 random_;
};

class Simulation {
 public:
  Simulation(const std::vector<PlannedStage>& stages, const MemoryPlan& plan)
      : stages_(stages), plan_(plan), memory_(static_cast<size_t>(plan.bytes / kUnit + 1)), terms_(stages.size()) {
    for (int i = static_cast<int>(stages.size()) - 1; i >= 0; --i) {
      const PlannedStage& stage = stages[static_cast<size_t>(i)];
      if (i + 1 == std::ssize(stages)) terms_[root(i)].push_back("loss");
      if (stage.view || !stage.has_gradient) continue;
      const int from = root_of(stages, stage.from), skip = root_of(stages, stage.skip);
      if (skip >= 0 && at(skip).has_gradient)
        terms_[static_cast<size_t>(skip)].push_back(stage.separates_skip ? fmt::format("dskip {}", i) : left_by(i));
      if (from >= 0 && at(from).has_gradient) terms_[static_cast<size_t>(from)].push_back(fmt::format("dx {}", i));
    }
  }

  void run() {
    write(plan_.image, kImageBytes, "image");
    for (const Segment& segment : plan_.segments.forward) run(segment, false);
    const int last = root_of(stages_, static_cast<int>(stages_.size()) - 1);
    read_value(last, plan_.value);
    if (at(last).has_gradient) write(gradient(last, 0), at(last).bytes, "loss");
    for (const Segment& segment : plan_.segments.backward) run(segment, true);
  }

  static constexpr int64_t kImageBytes = kSimulatedBatch * kUnit;

 private:
  const PlannedStage& at(int stage) const { return stages_[static_cast<size_t>(stage)]; }
  size_t root(int stage) const { return static_cast<size_t>(root_of(stages_, stage)); }
  const Place& gradient(int stage, size_t term) const { return plan_.gradient[static_cast<size_t>(stage)][term]; }
  bool changes_gradient(int stage) const {
    return at(stage).sums && (at(stage).saves_output || terms_[static_cast<size_t>(stage)].size() > 1);
  }
  // What the first term of its gradient has, when its backward reads it.
  std::string left_by(int stage) const {
    return changes_gradient(stage) ? fmt::format("summed {}", stage) : terms_[static_cast<size_t>(stage)][0];
  }

  int64_t units(const Place& place, int64_t bytes) const {
    return (place.of_slice ? bytes / kSimulatedBatch * samples_ : bytes) / kUnit;
  }
  void write(const Place& place, int64_t bytes, const std::string& tag) {
    ASSERT_GE(place.offset, 0) << tag;
    for (int64_t i = 0; i < units(place, bytes); ++i) memory_.at(static_cast<size_t>(place.offset / kUnit + i)) = tag;
  }
  void read(const Place& place, int64_t bytes, const std::string& tag) {
    ASSERT_GE(place.offset, 0) << tag;
    for (int64_t i = 0; i < units(place, bytes); ++i)
      ASSERT_EQ(memory_.at(static_cast<size_t>(place.offset / kUnit + i)), tag) << step_;
  }
  void read_value(int stage, const std::vector<Place>& places) {
    const int value = root_of(stages_, stage);
    if (value == LayerSpec::kImage) return read(plan_.image, kImageBytes, "image");
    if (value >= 0) read(places[static_cast<size_t>(stage)], at(value).bytes, fmt::format("value {}", value));
  }

  void run(const Segment& segment, bool in_backward) {
    samples_ = segment.sliced ? segment.samples : kSimulatedBatch;
    const std::vector<Place>& values = in_backward ? plan_.recomputed : plan_.value;
    for (const auto& [i, part] : segment.steps) {
      const PlannedStage& stage = at(i);
      const std::vector<std::string>& terms = terms_[static_cast<size_t>(i)];
      step_ = fmt::format("step {} of stage {}", static_cast<int>(part), i);
      if (part == Part::sum) read_value(stage.from, values);
      if (part == Part::forward) {
        read_value(stage.from, values);
        read_value(stage.skip, values);
        write(values[static_cast<size_t>(i)], stage.bytes, fmt::format("value {}", i));
      }
      if (part == Part::sum || part == Part::forward) continue;
      const bool is_sum = part == Part::backward_sum;
      if (stage.saves_input) read_value(stage.from, values);
      if (stage.saves_input && stage.separates_skip) read_value(stage.skip, values);
      if (stage.saves_output && is_sum == stage.sums) read_value(i, values);
      if (is_sum || !stage.sums)
        for (size_t t = 0; t < terms.size(); ++t) read(gradient(i, t), stage.bytes, terms[t]);
      if (is_sum && changes_gradient(i)) write(gradient(i, 0), stage.bytes, left_by(i));
      if (is_sum) continue;
      if (stage.sums) read(gradient(i, 0), stage.bytes, left_by(i));
      const auto& from = plan_.from_gradient[static_cast<size_t>(i)];
      const auto& skip = plan_.skip_gradient[static_cast<size_t>(i)];
      const bool has_skip = stage.skip >= 0 && at(root_of(stages_, stage.skip)).has_gradient;
      if (!has_skip || stage.separates_skip) write(gradient(i, 0), stage.bytes, "overwritten by its backward");
      if (from.offset >= 0) write(from, at(root_of(stages_, stage.from)).bytes, fmt::format("dx {}", i));
      if (skip.offset >= 0) write(skip, at(root_of(stages_, stage.skip)).bytes, fmt::format("dskip {}", i));
    }
  }

  const std::vector<PlannedStage>& stages_;
  const MemoryPlan& plan_;
  std::vector<std::string> memory_;              // by unit
  std::vector<std::vector<std::string>> terms_;  // what each term of a stage's gradient has, when it is complete
  int64_t samples_ = kSimulatedBatch;
  std::string step_;
};

TEST(MemorySimulation, EachStepReadsWhatWasWrittenForIt) {
  int sliced = 0, recomputed = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    Graphs graphs(seed);
    const std::vector<PlannedStage> stages = graphs.draw();
    const SliceBudget budget{.batch = kSimulatedBatch, .bytes = graphs.below(3) * 1000};
    const MemoryPlan plan = plan_memory(Simulation::kImageBytes, stages, budget);
    Simulation(stages, plan).run();
    if (HasFatalFailure()) FAIL() << "graph " << seed;
    for (const Segment& segment : plan.segments.backward) {
      sliced += segment.sliced;
      for (const SegmentStep& step : segment.steps) recomputed += step.part == Part::forward;
    }
  }
  EXPECT_GT(sliced, 100);
  EXPECT_GT(recomputed, 20);
}

}  // namespace
}  // namespace ddp
