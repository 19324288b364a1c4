// The evaluations of a run: of the weights over all test data, with precise batch norm where that is asked for, and of
// the average of the weights with its averaged statistics.
#pragma once

#include "train/evaluation/evaluation.h"
#include "train/evaluation/precise_bn.h"
#include "train/step/device_dataset.h"
#include "train/step/replica.h"
#include "train/trainer.h"

#include <functional>
#include <optional>

namespace ddp {

class Validation {
 public:
  // There are test data. All arguments outlive the validation.
  Validation(const TrainConfig& config, Replica& replica, const Datasets& data, const Samplers& samplers);

  // As Evaluator::run() and count_classes(), which counts the classes of the weights. Collective.
  std::optional<Evaluation> run(const std::function<bool()>& go_on);
  ClassCounts count_classes() const { return weights_.count_classes(); }

 private:
  const TrainConfig& config_;
  std::optional<PreciseBn> precise_bn_;
  DeviceDataset data_;
  Evaluator weights_;
  std::optional<Evaluator> average_;  // none without an average
};

}  // namespace ddp
