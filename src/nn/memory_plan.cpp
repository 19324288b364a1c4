#include "nn/memory_plan.h"

#include "nn/layer.h"

#include <algorithm>

namespace ddp {

MemoryPlan plan_memory(int64_t image_bytes, std::span<const PlannedStage> stages) {
  const int count = static_cast<int>(stages.size());
  const auto root = [&](int stage) {
    while (stage >= 0 && stages[stage].view) stage = stages[stage].from;
    return stage;
  };
  const auto backward_time = [&](int stage) { return 2 * count - stage; };

  std::vector<Lifetime> lives{{image_bytes, -1, 0}};  // the image, then each value that is not a view
  std::vector<int> life_of(count, 0);
  const auto life = [&](int stage) -> Lifetime& { return lives[root(stage) < 0 ? 0 : life_of[root(stage)]]; };
  for (int i = 0; i < count; ++i) {
    const PlannedStage& stage = stages[i];
    if (stage.view) continue;
    Lifetime& read = life(stage.from);
    read.last = std::max(read.last, stage.saves_input ? backward_time(i) : i);
    if (stage.skip != LayerSpec::kNone) {
      Lifetime& other = life(stage.skip);
      other.last = std::max(other.last, stage.saves_input && stage.separates_skip ? backward_time(i) : i);
    }
    life_of[i] = static_cast<int>(lives.size());
    lives.push_back({stage.bytes, i, stage.saves_output ? backward_time(i) : i});
  }

  std::vector<std::vector<int>> terms(count);  // of the gradient of each stage's value, as indices into `lives`
  std::vector<int> written(count, -1), written_skip(count, -1);
  const int last = root(count - 1);
  if (count > 0) {
    life(last).last = std::max(life(last).last, count);
    if (stages[last].has_gradient) {
      const bool is_read_later = life(last).last > count;
      terms[last].push_back(is_read_later ? static_cast<int>(lives.size()) : life_of[last]);
      if (is_read_later)
        lives.push_back({stages[last].bytes, count, backward_time(last)});
      else
        life(last).last = backward_time(last);
    }
  }
  for (int i = count - 1; i >= 0; --i) {
    const PlannedStage& stage = stages[i];
    if (stage.view || !stage.has_gradient) continue;
    for (const int term : terms[i]) lives[term].last = backward_time(i);
    const int from = root(stage.from), skip = stage.skip >= 0 ? root(stage.skip) : LayerSpec::kNone;
    const auto write = [&](int input) {
      const int term = static_cast<int>(lives.size());
      terms[input].push_back(term);
      lives.push_back({stages[input].bytes, backward_time(i), backward_time(i)});
      return term;
    };
    if (skip >= 0 && stages[skip].has_gradient) {
      if (stage.separates_skip)
        written_skip[i] = write(skip);
      else
        terms[skip].push_back(terms[i][0]);
    }
    if (from >= 0 && stages[from].has_gradient) written[i] = write(from);
  }

  const Arena arena = plan_arena(lives);
  MemoryPlan plan{.bytes = arena.bytes,
                  .image = arena.offsets[0],
                  .value = {},
                  .from_gradient = {},
                  .skip_gradient = {},
                  .gradient = {}};
  plan.gradient.resize(count);
  for (int i = 0; i < count; ++i) {
    plan.value.push_back(arena.offsets[root(i) < 0 ? 0 : life_of[root(i)]]);
    plan.from_gradient.push_back(written[i] < 0 ? -1 : arena.offsets[written[i]]);
    plan.skip_gradient.push_back(written_skip[i] < 0 ? -1 : arena.offsets[written_skip[i]]);
    for (const int term : terms[i]) plan.gradient[i].push_back(arena.offsets[term]);
  }
  return plan;
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
