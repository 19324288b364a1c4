// What a step does after its gradients are summed: it clips them and updates the weights. Where sharded (ZeRO stage 1),
// each rank holds the optimizer's state of its partitions only, updates these, and the ranks gather the weights. It
// owns the state.
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
  double max_grad_norm = 0;  // of all gradients together; 0: they are not clipped
  bool sharded = false;      // as the Reducer is; not with lars, which needs whole tensors
};

// The flat buffers of one rank, on the device: plan.padded elements each.
struct FlatBuffers {
  const BucketPlan& plan;
  float* weights = nullptr;
  const float* gradients = nullptr;
};

class Optimizer {
 public:
  // State is zero. The tensors lie where the plan's parameters do. Buffers, plan, device, ops and communicator outlive
  // this.
  Optimizer(const OptimizerConfig& config, std::span<const OptimizerTensor> tensors, const FlatBuffers& flat,
            Device& device, Ops& ops, Communicator& communicator);

  // Issues the update, ordered after the sums; a graph may capture it. `scalars` and `skip` lie on the device; clipping
  // overwrites gradient_scale. Where a value of `skip` is not 0, on all ranks alike, weights and state stay.
  void step(OptimizerScalars* scalars, std::span<const float> skip);
  int collectives() const;  // that step() starts

  // For step 1, 2, ...; a skipped step counts.
  OptimizerScalars scalars_for(double lr, int64_t step) const;

  // The state, by the names that PyTorch's optimizers give it, in the order of the flat buffer: plan.gradients values;
  // loaded, they may come without the gap behind the last tensor.
  // Both wait for the device; downloading is collective where it is scattered, and every rank gets the whole.
  int states() const { return config_.optimizer.states(); }
  std::string_view state_name(int k) const;
  bool downloads_together() const { return config_.sharded; }
  std::vector<float> download_state(int k);
  void load_state(int k, std::span<const float> values);
  size_t state_bytes() const;  // of this rank, all states

 private:
  void update(const Partition& partition, const OptimizerScalars* scalars, std::span<const float> skip);

  const OptimizerConfig config_;
  const FlatBuffers flat_;
  Device& device_;
  Ops& ops_;
  Communicator& communicator_;
  const std::vector<Partition> partitions_;  // of this rank, in the order of the flat buffer
  std::vector<Buffer> state_;
  Buffer square_sum_;
  std::unique_ptr<OptimizerOp> op_;
};

}  // namespace ddp
