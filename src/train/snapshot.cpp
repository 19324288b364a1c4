#include "train/snapshot.h"

#include "core/error.h"

namespace ddp {

std::optional<Snapshot> take_snapshot(Replica& replica, const RunState& run, int64_t updates) {
  Optimizer& optimizer = replica.optimizer;
  std::vector<OptimizerState> states;
  const bool wanted = replica.communicator.rank() == 0;
  for (int k = 0; k < optimizer.states(); ++k)
    if (wanted || optimizer.downloads_together())
      states.push_back({std::string(optimizer.state_name(k)), optimizer.download_state(k)});
  if (!wanted) return std::nullopt;
  return Snapshot{.model = {.weights = replica.download_weights(),
                            .statistics = replica.download_stats(replica.running_stats()),
                            .updates = updates},
                  .optimizer = std::move(states),
                  .run = run};
}

void restore(Replica& replica, const Snapshot& snapshot) {
  DDP_EXPECT(std::ssize(snapshot.optimizer) == replica.optimizer.states());
  replica.load(snapshot.model.weights);
  replica.load_running_stats(snapshot.model.statistics);
  for (int k = 0; k < replica.optimizer.states(); ++k) replica.optimizer.load_state(k, snapshot.optimizer[k].values);
}

std::vector<std::string> optimizer_state_names(const Replica& replica) {
  std::vector<std::string> names;
  for (int k = 0; k < replica.optimizer.states(); ++k) names.emplace_back(replica.optimizer.state_name(k));
  return names;
}

}  // namespace ddp
