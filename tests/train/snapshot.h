// A snapshot that owns its values.
#pragma once

#include "train/saving/snapshot.h"

#include <optional>
#include <vector>

namespace ddp::testing {

inline std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

inline Snapshot copy_of(const SnapshotView& view) {
  Snapshot copy{.model = {.weights = copy_of(view.model.weights),
                          .statistics = copy_of(view.model.statistics),
                          .updates = view.model.updates,
                          .frozen_updates = {view.model.frozen_updates.begin(), view.model.frozen_updates.end()}},
                .running_stats = copy_of(view.running_stats),
                .optimizer = {},
                .run = view.run};
  for (const OptimizerStateView& state : view.optimizer) copy.optimizer.push_back({state.name, copy_of(state.values)});
  for (const auto residual : view.residuals) copy.residuals.push_back(copy_of(residual));
  return copy;
}

inline std::optional<Snapshot> take_snapshot(Replica& replica, const RunState& run, int64_t updates) {
  SnapshotBuffers buffers(replica);
  const auto view = buffers.take(run, updates);
  return view ? std::make_optional(copy_of(*view)) : std::nullopt;
}

}  // namespace ddp::testing
