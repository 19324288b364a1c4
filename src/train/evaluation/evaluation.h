// Exact distributed evaluation: exactly one rank evaluates each sample, and an allreduce adds losses and counts.
#pragma once

#include "comm/communicator.h"
#include "data/sampler.h"
#include "nn/model.h"
#include "train/evaluation/class_counts.h"
#include "train/evaluation/precise_bn.h"
#include "train/step/device_dataset.h"
#include "train/step/replica.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace ddp {

struct AverageFigures {
  double accuracy = 0, loss = 0;
};

struct Evaluation {
  int64_t correct = 0;                         // samples whose class was predicted, or tokens that were
  int64_t samples = 0, expected_samples = 0;   // samples evaluated by all ranks, samples of the data set
  int64_t excluded = 0;                        // samples that could not be read: the others of expected_samples
  int64_t sequence_length = 0;                 // tokens that are predicted in a sample; 0: samples are images
  double loss = 0;                             // mean over the samples, so over all tokens; 0 without samples
  int64_t statistics_samples = 0;              // samples of the recomputed statistics; 0: running statistics were used
  double statistics_seconds = 0;               // time of that recomputation, evaluation excluded
  std::optional<AverageFigures> average = {};  // of the average of the weights; none: the run has none
  bool of_tokens() const { return sequence_length > 0; }
  int64_t labels() const { return samples * std::max<int64_t>(1, sequence_length); }
  // What --keep-best and --early-stop judge: the accuracy, of tokens the loss; of the average if there is one.
  double judged_accuracy() const { return average ? average->accuracy : accuracy(); }
  double judged_loss() const { return average ? average->loss : loss; }
  double accuracy() const { return samples == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(labels()); }
  double perplexity() const { return std::exp(loss); }  // of tokens
};

// A model with its weights, and the statistics of its batch norms. All parts outlive the evaluator.
struct EvaluatedModel {
  Model& model;
  const float* running_stats;
  Device& device;
  Communicator& communicator;  // of all ranks that evaluate
};

class Evaluator {
 public:
  static constexpr int64_t kStopCheckInterval = 8;  // batches after which ranks ask each other for a stop signal

  // `sampler` is sequential over `data`. Batch norms use the statistics of `precise_bn`, without it the running ones.
  // All arguments outlive the evaluator.
  Evaluator(Replica& replica, DeviceDataset& data, const DistributedSampler& sampler, PreciseBn* precise_bn = nullptr);
  // `model` is the replica's, or another one on its weights.
  Evaluator(Replica& replica, Model& model, DeviceDataset& data, const DistributedSampler& sampler,
            PreciseBn* precise_bn);
  Evaluator(const EvaluatedModel& evaluated, DeviceDataset& data, const DistributedSampler& sampler);

  // Collective. Calls `go_on` before each batch; it returns the same value on all ranks. If it returns false, run()
  // ends and returns nullopt. Throws CollectiveError(Exit::internal) if the ranks together have not seen as many
  // samples as the data set has.
  std::optional<Evaluation> run(const std::function<bool()>& go_on);

  // The classes of all ranks' images, as the last run() predicted them. That run was not ended early. Collective.
  ClassCounts count_classes() const;

 private:
  Evaluator(const EvaluatedModel& evaluated, DeviceDataset& data, const DistributedSampler& sampler,
            PreciseBn* precise_bn);

  const EvaluatedModel evaluated_;
  DeviceDataset& data_;
  const DistributedSampler& sampler_;
  PreciseBn* precise_bn_;
  Buffer stats_, host_stats_;  // loss and correct sum: of one step on the device; of each step on the host
  // A RankedClass of each image: of one step on the device; of all steps on the host. Empty: samples are tokens.
  Buffer ranked_, host_ranked_;
  std::unique_ptr<GraphCache> graphs_;
};

}  // namespace ddp
