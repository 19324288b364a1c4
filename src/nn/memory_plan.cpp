#include "nn/memory_plan.h"

#include "nn/layer.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace ddp {
namespace {

using Part = SegmentStep::Part;

class MemoryPlanner {
 public:
  MemoryPlanner(int64_t image_bytes, std::span<const PlannedStage> stages, const SliceBudget& slices)
      : stages_(stages), count_(static_cast<int>(stages.size())), slices_(slices), segments_(plan_segments(stages)) {
    slices_.batch = std::max<int64_t>(1, slices.batch);
    uses_.resize(segments_.forward.size() + 1 + segments_.backward.size());
    for (auto* times : {&forward_, &sum_, &backward_, &backward_sum_, &value_, &recomputed_, &written_, &written_skip_})
      times->assign(stages.size(), -1);
    terms_.resize(stages.size());
    for (int t = 0; t < loss_time(); ++t)
      for (const SegmentStep& s : segments_.forward[t].steps) (s.part == Part::sum ? sum_ : forward_)[s.stage] = t;
    for (int t = 0; t < std::ssize(segments_.backward); ++t)
      for (const SegmentStep& s : segments_.backward[t].steps)
        (s.part == Part::backward_sum ? backward_sum_ : backward_)[s.stage] = loss_time() + 1 + t;
    lives_.push_back({image_bytes, -1, 0});
  }

  MemoryPlan plan() {
    if (count_ > 0) {
      last_ = root_of(stages_, count_ - 1);
      place_values();
      for (int i = LayerSpec::kImage; i < count_; ++i)
        if (i < 0 || !stages_[i].view) save_value(i);
      place_gradients();
    }
    slice_samples_.assign(lives_.size(), 0);
    for (int t = 0; t < std::ssize(uses_); ++t) count_segment(t);
    for (size_t life = 0; life < lives_.size(); ++life)
      if (slice_samples_[life] > 0) lives_[life].bytes = lives_[life].bytes / slices_.batch * slice_samples_[life];
    const Arena arena = plan_arena(lives_);
    const auto place = [&](int life) {
      return life < 0 ? Place{} : Place{arena.offsets[life], slice_samples_[life] > 0};
    };
    MemoryPlan plan{.bytes = arena.bytes,
                    .segments = std::move(segments_),
                    .image = place(0),
                    .value = {},
                    .recomputed = {},
                    .from_gradient = {},
                    .skip_gradient = {},
                    .gradient = {},
                    .traffic = traffic_};
    plan.gradient.resize(stages_.size());
    for (int i = 0; i < count_; ++i) {
      plan.value.push_back(place(life_of(i)));
      const int root = root_of(stages_, i);
      plan.recomputed.push_back(root < 0 || recomputed_[root] < 0 ? plan.value.back() : place(recomputed_[root]));
      plan.from_gradient.push_back(place(written_[i]));
      plan.skip_gradient.push_back(place(written_skip_[i]));
      for (const int term : terms_[i]) plan.gradient[i].push_back(place(term));
    }
    return plan;
  }

 private:
  struct Use {
    int life;
    bool writes;
  };
  struct Read {
    int time;
    SegmentStep step;
  };

  int loss_time() const { return static_cast<int>(segments_.forward.size()); }
  Segment* segment_at(int time) {
    if (time < 0 || time == loss_time()) return nullptr;
    return time < loss_time() ? &segments_.forward[time] : &segments_.backward[time - loss_time() - 1];
  }
  bool sliced_at(int time) {
    const Segment* segment = segment_at(time);
    return segment && segment->sliced;
  }

  int life_of(int stage) const {
    const int root = root_of(stages_, stage);
    return root < 0 ? 0 : value_[root];
  }
  int write_new(int stage, int time) {
    const int life = static_cast<int>(lives_.size());
    lives_.push_back({stages_[stage].bytes, time, time});
    write(life, time);
    return life;
  }
  void read(int life, int time) { use({life, false}, time); }
  void write(int life, int time) { use({life, true}, time); }
  void use(const Use& use, int time) {
    lives_[use.life].last = std::max(lives_[use.life].last, time);
    uses_[time].push_back(use);
  }

  void place_values() {
    for (int i = 0; i < count_; ++i) {
      const PlannedStage& stage = stages_[i];
      if (stage.view) continue;
      if (stage.sums) read(life_of(stage.from), sum_[i]);
      read(life_of(stage.from), forward_[i]);
      if (stage.skip != LayerSpec::kNone) read(life_of(stage.skip), forward_[i]);
      value_[i] = write_new(i, forward_[i]);
    }
    read(value_[last_], loss_time());
  }

  // The steps of the backward pass that read the value of `i`, which may be the image.
  std::vector<Read> saved_reads(int i) const {
    std::vector<Read> reads;
    const auto add = [&](int stage, Part part) {
      const int time = (part == Part::backward_sum ? backward_sum_ : backward_)[stage];
      if (time >= 0) reads.push_back({time, {stage, part}});
    };
    for (int r = std::max(i, 0); r < count_; ++r) {
      const PlannedStage& reader = stages_[r];
      if (reader.view) continue;
      const bool as_from = root_of(stages_, reader.from) == i,
                 as_skip = reader.separates_skip && root_of(stages_, reader.skip) == i;
      const bool as_input = reader.saves_input && (as_from || as_skip), as_output = reader.saves_output && r == i;
      if (reader.sums && (as_input || as_output)) add(r, Part::backward_sum);
      if (as_input || (as_output && !reader.sums)) add(r, Part::backward);
    }
    return reads;
  }

  void save_value(int i) {
    const std::vector<Read> reads = saved_reads(i);
    if (reads.empty()) return;
    const bool recomputes = can_recompute(i, reads);
    if (recomputes)
      for (const Read& r : reads) recompute(i, r.time, reads);
    for (const Read& r : reads) read(recomputes ? recomputed_[i] : life_of(i), r.time);
  }

  bool can_recompute(int i, std::span<const Read> reads) {
    if (i < 0) return false;
    const PlannedStage& stage = stages_[i];
    const Lifetime& life = lives_[value_[i]];
    const int from = root_of(stages_, stage.from);
    return stage.recomputes && from >= 0 && !stages_[from].recomputes && life.first == life.last &&
           sliced_at(life.first) && std::ranges::all_of(reads, [&](const Read& r) { return sliced_at(r.time); });
  }

  // Computes the value again before the first of its reads in the segment.
  void recompute(int i, int time, std::span<const Read> reads) {
    std::vector<SegmentStep>& steps = segment_at(time)->steps;
    if (std::ranges::find(steps, SegmentStep{i, Part::forward}) != steps.end()) return;
    const auto first = std::ranges::find_if(
        steps, [&](const SegmentStep& step) { return std::ranges::find(reads, step, &Read::step) != reads.end(); });
    steps.insert(first, {i, Part::forward});
    read(life_of(stages_[i].from), time);
    if (recomputed_[i] < 0)
      recomputed_[i] = write_new(i, time);
    else
      write(recomputed_[i], time);
    lives_[recomputed_[i]].first = std::min(lives_[recomputed_[i]].first, time);
  }

  void place_gradients() {
    if (stages_[last_].has_gradient) {
      const bool is_read_later = lives_[value_[last_]].last > loss_time();
      if (!is_read_later) write(value_[last_], loss_time());
      terms_[last_].push_back(is_read_later ? write_new(last_, loss_time()) : value_[last_]);
    }
    for (int i = count_ - 1; i >= 0; --i) {
      const PlannedStage& stage = stages_[i];
      if (stage.view || !stage.has_gradient) continue;
      read_terms(i);
      const int from = root_of(stages_, stage.from), skip = root_of(stages_, stage.skip);
      const auto write_term = [&](int input) { return terms_[input].emplace_back(write_new(input, backward_[i])); };
      if (skip >= 0 && stages_[skip].has_gradient) {
        if (stage.separates_skip)
          written_skip_[i] = write_term(skip);
        else
          terms_[skip].push_back(terms_[i][0]);
      }
      if (from >= 0 && stages_[from].has_gradient) written_[i] = write_term(from);
    }
  }

  // A sum leaves what the backward reads in the first term.
  void read_terms(int i) {
    const PlannedStage& stage = stages_[i];
    for (size_t t = 0; t < terms_[i].size(); ++t) {
      const int term = terms_[i][t];
      if (stage.sums) {
        read(term, backward_sum_[i]);
        if (t == 0 && (stage.saves_output || terms_[i].size() > 1)) write(term, backward_sum_[i]);
      }
      if (t == 0 || !stage.sums)
        for (int pass = 0; pass < (stage.reads_gradient_twice ? 2 : 1); ++pass) read(term, backward_[i]);
    }
  }

  // Sets the samples of a segment's slices, notes which tensors have the memory of a slice, and adds to the traffic.
  void count_segment(int time) {
    Segment* const segment = segment_at(time);
    if (!segment || !segment->sliced) {
      for (const Use& use : uses_[time]) traffic_ += lives_[use.life].bytes;
      return;
    }
    std::set<int> read, written;
    for (const Use& use : uses_[time]) {
      if (use.writes)
        written.insert(use.life);
      else if (!written.contains(use.life))
        read.insert(use.life);
    }
    std::set<int> all = read;
    all.insert(written.begin(), written.end());
    int64_t bytes = 0;
    for (const int life : all) bytes += lives_[life].bytes;
    segment->samples = samples_of(*segment, time < loss_time(), bytes);
    const bool cached = segment->samples * bytes <= slices_.bytes * slices_.batch;
    for (const int life : all) {
      const bool is_recomputed = std::ranges::find(recomputed_, life) != recomputed_.end();
      if (is_recomputed || (lives_[life].first == time && lives_[life].last == time))
        slice_samples_[life] = std::max(slice_samples_[life], segment->samples);
      else if (cached)
        traffic_ += lives_[life].bytes * ((read.contains(life) ? 1 : 0) + (written.contains(life) ? 1 : 0));
    }
    if (!cached)
      for (const Use& use : uses_[time]) traffic_ += lives_[use.life].bytes;
  }

  // `bytes`: of the segment's tensors, of the whole batch.
  int64_t samples_of(const Segment& segment, bool forward, int64_t bytes) const {
    int64_t samples = 1;
    for (const SegmentStep& step : segment.steps) {
      const SliceSamples& least = stages_[step.stage].slices;
      samples = std::max(samples, forward ? least.forward : least.backward);
    }
    while (samples < slices_.batch && 2 * samples * bytes <= slices_.bytes * slices_.batch) samples *= 2;
    return std::min(samples, slices_.batch);
  }

  std::span<const PlannedStage> stages_;
  int count_, last_ = LayerSpec::kImage;
  SliceBudget slices_;
  Segments segments_;
  std::vector<Lifetime> lives_;         // of the image, then of each tensor
  std::vector<std::vector<Use>> uses_;  // by time
  std::vector<int64_t> slice_samples_;  // by life; 0: it has the whole batch
  // By stage: times of its steps, and lives of what it writes; -1: none.
  std::vector<int> forward_, sum_, backward_, backward_sum_, value_, recomputed_, written_, written_skip_;
  std::vector<std::vector<int>> terms_;  // lives of the terms of its gradient
  int64_t traffic_ = 0;
};

}  // namespace

MemoryPlan plan_memory(int64_t image_bytes, std::span<const PlannedStage> stages, const SliceBudget& slices) {
  return MemoryPlanner(image_bytes, stages, slices).plan();
}

int64_t least_inference_bytes(const Network& network, int64_t batch) {
  const auto bytes = [&](const ImageShape& image) {
    return batch * image.elements() * static_cast<int64_t>(sizeof(float));
  };
  const Network trimmed = network.trimmed();
  std::vector<PlannedStage> stages;
  for (const LayerSpec& layer : trimmed.layers())
    stages.push_back({.bytes = bytes(layer.output),
                      .view = layer.view || is_dropout(layer),
                      .from = layer.from,
                      .skip = layer.skip});
  return plan_memory(bytes(trimmed.layers().at(0).input), stages).bytes;
}

}  // namespace ddp
