#include "train/saving/snapshot.h"

#include "core/error.h"
#include "train/step/residual.h"

namespace ddp {

namespace {

std::span<const float> floats(const Buffer& buffer) {
  return {buffer.as<const float>(), buffer.bytes() / sizeof(float)};
}

}  // namespace

std::optional<SnapshotView> SnapshotBuffers::take(const RunState& run, int64_t updates) {
  Replica& r = replica_;
  const bool wanted = r.communicator.rank() == 0;
  const int hosts = r.sums_in_int8() ? r.communicator.place().hosts : 0;
  if (wanted && !weights_.data()) {
    Memory& memory = r.device.host_memory();
    weights_ = Buffer(memory, bytes_of_floats(r.weights_count));
    eval_stats_ = Buffer(memory, bytes_of_floats(state_count(r.batch_norms)));
    running_stats_ = Buffer(memory, bytes_of_floats(state_count(r.batch_norms)));
    if (r.average) {
      average_weights_ = Buffer(memory, weights_.bytes());
      average_stats_ = Buffer(memory, running_stats_.bytes());
    }
    for (int k = 0; k < r.optimizer.states(); ++k) optimizer_.emplace_back(memory, bytes_of_floats(r.plan.gradients));
    for (int host = 0; host < hosts; ++host) residuals_.emplace_back(memory, bytes_of_floats(r.plan.gradients));
  }
  if (wanted || r.optimizer.downloads_together())
    for (int k = 0; k < r.optimizer.states(); ++k)
      r.optimizer.download_state(k, wanted ? optimizer_[k].as<float>() : nullptr);
  for (int host = 0; host < hosts; ++host) download_residual(r, host, wanted ? residuals_[host].as<float>() : nullptr);
  if (!wanted) return std::nullopt;
  r.device.download(weights_.data(), r.weights(), weights_.bytes());
  if (running_stats_.bytes() > 0) r.device.download(running_stats_.data(), r.running_stats(), running_stats_.bytes());
  const bool recomputed = run.bn_stats_samples > 0;
  if (recomputed) r.device.download(eval_stats_.data(), r.eval_stats(), eval_stats_.bytes());
  if (r.average) r.device.download(average_weights_.data(), r.average->weights(), average_weights_.bytes());
  if (average_stats_.bytes() > 0)
    r.device.download(average_stats_.data(), r.average->running_stats(), average_stats_.bytes());
  r.device.synchronize();

  SnapshotView view{
      .model = {floats(weights_), floats(recomputed ? eval_stats_ : running_stats_), updates, r.frozen_updates},
      .running_stats = recomputed ? floats(running_stats_) : std::span<const float>(),
      .optimizer = {},
      .run = run};
  if (r.average)
    view.average = ModelStateView{floats(average_weights_), floats(average_stats_), updates, r.frozen_updates};
  for (int k = 0; k < r.optimizer.states(); ++k)
    view.optimizer.push_back({std::string(r.optimizer.state_name(k)), floats(optimizer_[k])});
  for (const Buffer& residual : residuals_) view.residuals.push_back(floats(residual));
  return view;
}

void restore(Replica& replica, const Snapshot& snapshot) {
  DDP_EXPECT(std::ssize(snapshot.optimizer) == replica.optimizer.states());
  DDP_EXPECT(snapshot.average.has_value() == (replica.average != nullptr));
  replica.load(snapshot.model.weights);
  replica.frozen_updates = snapshot.model.frozen_updates;
  const bool recomputed = snapshot.run.bn_stats_samples > 0;
  replica.load_running_stats(recomputed ? snapshot.running_stats : snapshot.model.statistics);
  if (recomputed) replica.load_eval_stats(snapshot.model.statistics);
  if (snapshot.average) replica.load_average(snapshot.average->weights, snapshot.average->statistics);
  for (int k = 0; k < replica.optimizer.states(); ++k) replica.optimizer.load_state(k, snapshot.optimizer[k].values);
  load_residuals(replica, static_cast<int>(std::ssize(snapshot.residuals)),
                 [&](int host) { return snapshot.residuals[host]; });
}

std::vector<std::string> optimizer_state_names(const Replica& replica) {
  std::vector<std::string> names;
  for (int k = 0; k < replica.optimizer.states(); ++k) names.emplace_back(replica.optimizer.state_name(k));
  return names;
}

}  // namespace ddp
