// What a step does after its gradients are summed: clip them, update the weights, and, where gradients were scattered,
// put the weights together again (ZeRO stage 1: each rank holds the optimizer's state of its parts only, and updates
// those). It owns the state.
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

struct WeightUpdateDesc {
  OptimizerDesc optimizer = {};
  double max_grad_norm = 0;  // of all gradients together; 0: they are not clipped
  bool scatter = false;      // as the Reducer's wire; not with lars, which needs whole tensors
};

class WeightUpdate {
 public:
  // State is zero. The tensors lie where the plan's parameters do. Plan, device, ops and communicator outlive this.
  WeightUpdate(const WeightUpdateDesc& desc, std::span<const OptimizerTensor> tensors, const BucketPlan& plan,
               Device& device, Ops& ops, Communicator& communicator);

  // Issues it all, ordered after the sums, and may be recorded. `weights` and `gradients` have plan.padded elements;
  // `scalars` and `skip` are the device's, and clipping overwrites the scalars' gradient_scale. Where a value of `skip`
  // is not 0, which must be so on all ranks alike, weights and state stay.
  void issue(float* weights, const float* gradients, OptimizerScalars* scalars, std::span<const float> skip);
  int collectives() const;  // that issue() starts

  // For step 1, 2, ...; a skipped step counts.
  OptimizerScalars scalars_for(double rate, int64_t step) const;

  // The state, by the names that PyTorch's optimizers give it, in the order of the flat buffer: plan.gradients values;
  // loaded, they may come without the gap behind the last tensor.
  // Both wait for the device; downloading is collective where it is scattered, and every rank gets the whole.
  int states() const { return desc_.optimizer.states(); }
  std::string_view state_name(int k) const;
  bool downloads_together() const { return desc_.scatter; }
  std::vector<float> download_state(int k);
  void load_state(int k, std::span<const float> values);
  size_t state_bytes() const;  // of this rank, all states

 private:
  void update(const Part& part, float* weights, const float* gradients, const OptimizerScalars* scalars,
              std::span<const float> skip);

  const WeightUpdateDesc desc_;
  const BucketPlan& plan_;
  Device& device_;
  Ops& ops_;
  Communicator& communicator_;
  const std::vector<Part> parts_;  // of this rank, in the order of the flat buffer
  std::vector<Buffer> state_;
  Buffer square_sum_;
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace ddp
