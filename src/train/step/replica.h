// One rank's copy of the model: the flat buffers of weights and gradients, the running statistics of its batch norms,
// the bucket plan, the model, the reducer that sums gradients, and the optimizer. All ranks build the same.
#pragma once

#include "comm/communicator.h"
#include "ddp/bucket_plan.h"
#include "ddp/reducer.h"
#include "device/buffer.h"
#include "device/graph_cache.h"
#include "nn/model.h"
#include "nn/parameter_groups.h"
#include "train/step/draw_mix.h"
#include "train/step/optimizer.h"
#include "train/step/step_block.h"
#include "train/step/weight_average.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace ddp {

// Of gradients in communication. int8: in blocks of 256 with error feedback, between hosts only (comm/int8.h).
enum class GradDType : uint8_t { fp32, bf16, int8 };

struct ReplicaConfig {
  std::vector<int64_t> batch_sizes = {};  // all local batch sizes above 0 of training and evaluation
  BucketCaps caps = {};
  OptimizerDesc optimizer = {};
  bool all_decay = true;  // weight decay for biases and the parameters of norms too
  std::vector<ParameterGroup> groups = {};
  double max_grad_norm = 0;  // largest norm of all gradients together; 0: no clipping
  bool zero = false;         // optimizer state is sharded (ZeRO stage 1)
  GradDType grad_dtype = GradDType::fp32;
  bool excludes = false;  // samples that cannot be read have no weight; false: they end the run
  bool averages = false;  // keeps an average of the weights
  bool sync_bn = false;   // batch norms normalise over the shards of all ranks
  float label_smoothing = 0;
  MixConfig mix = {};                     // of the samples of a global batch
  std::vector<float> class_weights = {};  // of the loss of a sample, by its label; empty: 1. Without smoothing and mix
  uint64_t seed = 0;                      // of dropout, augmentation and mix
  PixelScale pixel_scale = {};
  Augmentation augmentation = {};  // of training images; the replica sets its seed and epoch
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
  BucketPlan plan;               // of the trained parameters; only set_buckets() changes it
  const int64_t weights_count;   // elements of the flat weights: plan.gradients, then those of the frozen parameters
  const StepBlockLayout layout;  // of `block`, after the gradients

  const Buffer weight_buffer, gradient_buffer;
  const Buffer comm_buffer;          // gradients in bf16 for communication; no data if grad_dtype is another one
  const Buffer residual_buffers[2];  // plan.padded floats each in host memory; no data unless gradients travel in int8
  const Buffer running_stats_buffer, eval_stats_buffer;
  const std::unique_ptr<WeightAverage> average;  // of weight_buffer and running_stats_buffer; null: none
  const StepBlock block;                         // in gradient_buffer

  const std::unique_ptr<Communicator> bn_communicator;  // for batch-norm sums; null where none trains or with one rank
  const std::unique_ptr<Communicator> casting;  // bf16 gradients over `communicator`; null if grad_dtype is another one
  const bool scans_once;  // one rank whose collectives copy nothing: all gradients are scanned at once
  const std::unique_ptr<RunningStats> running_stats_op;
  const std::unique_ptr<TensorHash> weight_hash, running_stats_hash;  // null with one rank
  const Buffer hashes;  // of the parameters, then of the running statistics of each batch norm; then of their averages
  const bool excludes;  // samples that cannot be read have no weight
  const MixConfig mix;
  const std::vector<float> class_weights;  // empty: none
  const uint64_t seed;
  const bool sync_bn;  // batch norms communicate while they compute

  Residual step_residual = {};

  // PyTorch's num_batches_tracked of each frozen batch norm; empty: 0. It does not change.
  std::vector<int64_t> frozen_updates = {};

  Model model;
  std::unique_ptr<GradientScan> gradient_scan;  // marks bad gradients by bucket
  Reducer reducer;
  Optimizer optimizer;

  // How the model's input is mixed, in device memory; null: not at all.
  const BatchMix* batch_mix() const { return mix.any() ? block.mix() : nullptr; }
  // Whether the divisor of the gradient is known only when the ticket is summed.
  bool corrects_divisor() const { return excludes || !class_weights.empty(); }

  // Cuts the gradients into buckets that begin at these parameters, in place of those of ReplicaConfig::caps. Before
  // the first step and before optimizer state is loaded. Collective.
  void set_buckets(std::span<const ParameterId> begins);

  float* weights() const { return weight_buffer.as<float>(); }
  float* gradients() const { return gradient_buffer.as<float>(); }
  // Whether gradients travel between hosts in int8. Then step_residual goes with their sums (train/step/residual.h).
  bool sums_in_int8() const { return residual_buffers[0].data() != nullptr; }
  const char* gradient_type() const;  // "", " in bf16", " in int8 between hosts"
  float* bn_batch_sums() const { return gradients() + layout.bn_batch_sums; }
  int64_t bn_batch_sums_count() const { return trained_state_count(batch_norms); }

  // Running statistics in the layout of `batch_norms`, and the statistics that PreciseBn computes for evaluations.
  float* running_stats() const { return running_stats_buffer.as<float>(); }
  float* eval_stats() const { return eval_stats_buffer.as<float>(); }

  // Issues the work: through `graphs` if it is not null and the communicator is capturable().
  void run(GraphCache* graphs, GraphKey key, const std::function<void()>& work) const;
  void zero_gradients() const;
  // Updates the running statistics from the batch-norm sums of a step with `samples` samples over all ranks. Skipped
  // like the optimizer's step.
  void update_running_stats(int64_t samples) const;
  // Moves the average by `rate`, after a step. Skipped like the optimizer's step.
  void update_average(float rate) const;

  // Host copies in flat order: weights_count weights, plan.gradients gradients, state_count(batch_norms) statistics.
  // Downloads wait for the device. load() also accepts weights without the gap after the last tensor.
  // load_running_stats() sets both statistics. These two set the average too.
  void load(std::span<const float> weights);
  void load_running_stats(std::span<const float> stats);
  void load_eval_stats(std::span<const float> stats);
  void load_average(std::span<const float> weights, std::span<const float> stats);
  std::vector<float> download(const float* values, int64_t count) const;
  std::vector<float> download_weights() const;
  std::vector<float> download_gradients() const;  // of the last step
  std::vector<float> download_stats(const float* stats) const;

  // Compares hashes of weights, running statistics and their averages over ranks; does nothing with one rank.
  // Collective. Throws CollectiveError(Exit::communication) that names the tensor and the ranks if bits differ.
  void check_replicas() const;
};

}  // namespace ddp
