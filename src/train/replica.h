// One rank's copy of the model: the flat buffers of weights and gradients, the running statistics of its batch norms,
// the bucket plan, the model, the reducer that sums gradients, and the optimizer. All ranks build it alike.
#pragma once

#include "comm/communicator.h"
#include "ddp/bucket_plan.h"
#include "ddp/reducer.h"
#include "device/buffer.h"
#include "device/graph_cache.h"
#include "nn/init.h"
#include "nn/model.h"
#include "train/optimizer.h"
#include "train/step_block.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace ddp {

struct ReplicaConfig {
  std::vector<int64_t> batch_sizes = {};  // all local batch sizes above 0 of training and evaluation
  BucketCaps caps = {};
  OptimizerDesc optimizer = {};
  bool all_decay = true;          // weight decay for biases and the parameters of norms too
  double max_grad_norm = 0;       // of the gradients together; 0: not clipped
  bool zero = false;              // optimizer state is sharded (ZeRO stage 1)
  DType grad_dtype = DType::f32;  // of gradients on their way to other ranks
  bool sync_bn = false;           // batch norms normalise by the global batch
  float label_smoothing = 0;
  uint64_t seed = 0;  // of dropout
};

struct Replica {
  // Collective. Weights are zero until load() is called; means are 0 and variances 1. Device, ops and communicator
  // outlive the replica.
  Replica(const Network& network, const ReplicaConfig& config, Device& device, Ops& ops, Communicator& communicator);
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  Device& device;
  Ops& ops;
  Communicator& communicator;
  const std::vector<Parameter> parameters;
  const std::vector<BatchNormState> batch_norms;
  const BucketPlan plan;
  const StepBlockLayout layout;  // behind the gradients

  const Buffer weight_buffer, gradient_buffer;
  const Buffer comm_buffer;  // gradients in bf16, on their way; without data where they travel in f32
  const Buffer running_stats_buffer, eval_stats_buffer;
  const StepBlock block;  // in gradient_buffer

  const std::unique_ptr<Communicator> bn_communicator;  // for the sums of batch norms; null where nothing needs it
  const std::unique_ptr<Communicator> casting;          // over `communicator`; null where gradients travel in f32
  const std::unique_ptr<RunningStats> running_stats_op;

  Model model;
  Reducer reducer;
  Optimizer optimizer;

  float* weights() const { return weight_buffer.as<float>(); }
  float* gradients() const { return gradient_buffer.as<float>(); }
  float* bn_batch_sums() const { return gradients() + layout.bn_batch_sums; }

  // Running statistics as `norms` says, and those that evaluation uses where they are recomputed for it.
  float* running_stats() const { return running_stats_buffer.as<float>(); }
  float* eval_stats() const { return eval_stats_buffer.as<float>(); }

  // Issues the work. A graph of `graphs` replays it where `graphs` is not null and the communicator allows it.
  void run(GraphCache* graphs, GraphKey key, const std::function<void()>& work) const;
  void zero_gradients() const;
  // From the summed statistics of a step over `samples`. Skipped like the optimizer's step.
  void update_running_stats(int64_t samples) const;

  // Host copies in flat order: plan.gradients values, and state_count(norms) of running statistics. All wait for the
  // device. Weights may come without the gap behind the last tensor.
  void load(std::span<const float> weights);
  void load_running_stats(std::span<const float> stats);
  std::vector<float> download_weights() const;
  std::vector<float> download_gradients() const;
  std::vector<float> download_stats(const float* stats) const;

  // The same bits on every rank, or Error(Exit::communication) that names the tensor and the ranks. Collective.
  void check_replicas() const;
};

}  // namespace ddp
