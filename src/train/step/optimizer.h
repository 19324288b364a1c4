// Clips the summed gradients and updates the weights. Owns the optimizer's state. If sharded (ZeRO stage 1), each rank
// holds the state of its partitions only and updates only these; then the ranks gather the weights.
#pragma once

#include "comm/communicator.h"
#include "ddp/bucket_plan.h"
#include "device/buffer.h"
#include "device/device.h"
#include "ops/ops.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace ddp {

struct OptimizerConfig {
  OptimizerDesc optimizer = {};
  double max_grad_norm = 0;  // largest norm of all gradients together; 0: no clipping
  bool sharded = false;      // as ReducerConfig::sharded; not with lars, which needs whole tensors
  bool sums_squares = true;  // false: FlatBuffers::squares has its value before step()
};

// What divides the gradient of a step, in device memory: the number of samples that have weight, or the sum of the
// weights of their labels. Where it is 0, *flag gets the mark: it is one of the values of `skip` of Optimizer::step().
struct SeenSamples {
  const float* divisor = nullptr;  // null: all planned samples have weight
  float mark = 0;
  float* flag = nullptr;
};

// The flat buffers of one rank, on the device: plan.padded elements each; frozen weights may follow. step() sets
// *squares to the squared norm of the summed gradients, before clipping, unless the caller has done so (sums_squares).
struct FlatBuffers {
  const BucketPlan& plan;
  float* weights = nullptr;
  const float* gradients = nullptr;
  float* squares = nullptr;
  uint16_t* bf16_weights = nullptr;  // step() writes it too, unless sharded; may be null
  SeenSamples seen = {};
};

class Optimizer {
 public:
  // State is zero. Tensor i lies at the offset of the plan's parameter i. Buffers, plan, device, ops and communicator
  // outlive the optimizer.
  Optimizer(const OptimizerConfig& config, std::span<const OptimizerTensor> tensors, const FlatBuffers& flat,
            Device& device, Ops& ops, Communicator& communicator);

  // Issues the update, ordered after the device work so far; a graph may capture it. `scalars` and `skip` are in device
  // memory; clipping overwrites gradient_scale. With FlatBuffers::seen, gradient_scale has the planned samples before.
  // If a value of `skip` is not 0, weights and state do not change; `skip` is equal on all ranks. Collective if
  // sharded.
  void step(OptimizerScalars* scalars, std::span<const float> skip);
  bool rounds_weights() const { return !config_.sharded; }
  // Whether step() sets FlatBuffers::squares to those of this rank's partitions only.
  bool sums_own_part() const { return config_.sharded && config_.max_grad_norm == 0; }
  // The plan has other buckets from now on. Before the first step, while the state is zero.
  void buckets_changed();
  // Gathers the weights alone, to measure it; between steps. Nothing if not sharded.
  void gather_alone();
  int collectives() const;  // number of collectives that step() starts

  // `step` is 1, 2, ...; a skipped step counts.
  OptimizerScalars scalars_for(double lr, int64_t step) const;

  // State buffer k, with its name in PyTorch's optimizers: plan.gradients values in the order of the flat buffer.
  // load_state() also accepts values without the gap after the last tensor. Both wait for the device. If sharded,
  // download_state() is collective. A rank with null `values` only takes part.
  int states() const { return config_.optimizer.states(); }
  std::string_view state_name(int k) const;
  bool downloads_together() const { return config_.sharded; }
  void download_state(int k, float* values);
  void load_state(int k, std::span<const float> values);
  size_t state_bytes() const;  // of all state buffers of this rank

 private:
  Communicator::Sequence gather(size_t bucket);
  void update(const Partition& partition, const OptimizerScalars* scalars, std::span<const float> skip);

  const OptimizerConfig config_;
  const FlatBuffers flat_;
  Device& device_;
  Ops& ops_;
  Communicator& communicator_;
  std::vector<Partition> partitions_;  // of this rank, in the order of the flat buffer
  std::vector<Buffer> state_;
  std::unique_ptr<OptimizerOp> op_;
};

}  // namespace ddp
