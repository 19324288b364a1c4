#include "train/evaluation/validation.h"

#include "core/error.h"

namespace ddp {
namespace {

// A trace has the loader of the training, whose threads wait meanwhile.
DataPlacement placement_for(const TrainConfig& config, Exclusions* exclusions) {
  DataPlacement placement = config.data_placement;
  placement.spans = nullptr;
  placement.exclusions = exclusions;
  return placement;
}

std::optional<PreciseBn> precise_bn_for(const TrainConfig& config, Replica& replica, const Datasets& data,
                                        const Samplers& samplers) {
  if (!samplers.statistics) return std::nullopt;
  return std::make_optional<PreciseBn>(replica, data.train->unaugmented(), *samplers.statistics,
                                       placement_for(config, config.train_exclusions));
}

}  // namespace

Validation::Validation(const TrainConfig& config, Replica& replica, const Datasets& data, const Samplers& samplers)
    : config_(config),
      precise_bn_(precise_bn_for(config, replica, data, samplers)),
      data_(replica.device, *data.test, samplers.largest_shard(*samplers.test),
            placement_for(config, config.test_exclusions)),
      weights_(replica, config.evaluation_model ? *config.evaluation_model : replica.model, data_, *samplers.test,
               precise_bn_ ? &*precise_bn_ : nullptr) {
  if (!replica.average) return;
  DDP_EXPECT(config.average_model);
  average_.emplace(EvaluatedModel{.model = *config.average_model,
                                  .running_stats = replica.average->running_stats(),
                                  .device = replica.device,
                                  .communicator = replica.communicator},
                   data_, *samplers.test);
}

std::optional<Evaluation> Validation::run(const std::function<bool()>& go_on) {
  if (config_.evaluation_model) config_.evaluation_model->bind();
  std::optional<Evaluation> evaluation = weights_.run(go_on);
  if (!evaluation || !average_) return evaluation;
  config_.average_model->bind();
  const auto of_average = average_->run(go_on);
  if (!of_average) return std::nullopt;
  evaluation->average = {.accuracy = of_average->accuracy(), .loss = of_average->loss};
  return evaluation;
}

}  // namespace ddp
