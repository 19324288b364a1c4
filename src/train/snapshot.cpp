#include "train/snapshot.h"

#include "core/error.h"

namespace ddp {

std::optional<Snapshot> take_snapshot(Replica& replica, const RunState& run, int64_t updates) {
  WeightUpdate& update = replica.update;
  std::vector<OptimizerState> optimizer;
  const bool wanted = replica.communicator.rank() == 0;
  for (int k = 0; k < update.states(); ++k)
    if (wanted || update.downloads_together())
      optimizer.push_back({std::string(update.state_name(k)), update.download_state(k)});
  if (!wanted) return std::nullopt;
  return Snapshot{.model = {.weights = replica.download_weights(),
                            .statistics = replica.download_state(replica.state()),
                            .updates = updates},
                  .optimizer = std::move(optimizer),
                  .run = run};
}

void restore(Replica& replica, const Snapshot& snapshot) {
  DDP_EXPECT(std::ssize(snapshot.optimizer) == replica.update.states());
  replica.load(snapshot.model.weights);
  replica.load_state(snapshot.model.statistics);
  for (int k = 0; k < replica.update.states(); ++k) replica.update.load_state(k, snapshot.optimizer[k].values);
}

std::vector<std::string> optimizer_state_names(const Replica& replica) {
  std::vector<std::string> names;
  for (int k = 0; k < replica.update.states(); ++k) names.emplace_back(replica.update.state_name(k));
  return names;
}

}  // namespace ddp
