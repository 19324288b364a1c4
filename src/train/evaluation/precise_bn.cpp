#include "train/evaluation/precise_bn.h"

#include "train/step/fences.h"
#include "train/step/prefetcher.h"

#include <functional>

namespace ddp {

PreciseBn::PreciseBn(Replica& replica, const Dataset& data, const DistributedSampler& sampler,
                     const DataPlacement& placement)
    : replica_(replica),
      sampler_(sampler),
      samples_(data, sampler.samples()),
      data_(replica.device, samples_, sampler.largest_shard(), placement),
      graphs_(replica.device.graph_cache()) {}

bool PreciseBn::run(const std::function<bool()>& go_on) {
  Replica& r = replica_;
  const int64_t steps = sampler_.steps_per_epoch();
  Prefetcher prefetcher(data_, sampler_, 0, steps, kEvaluationFences);
  for (int64_t step = 0; step < steps; ++step) {
    if (!go_on()) return false;
    const DeviceBatch& batch = prefetcher.next();
    const Gradient mode = step == 0 ? Gradient::overwrite : Gradient::add;
    const auto work = [&] { r.model.precise_bn(batch, mode); };
    r.run(graphs_.get(), {.kind = static_cast<int>(mode), .size = batch.plan.global_size}, std::ref(work));
    r.device.poll();
  }
  const int64_t count = r.bn_batch_sums_count();
  r.communicator.wait(r.communicator.all_reduce({r.bn_batch_sums(), count, DType::f32}));
  r.ops.copy_or_add(r.running_stats(), r.eval_stats(), state_count(r.batch_norms),
                    Gradient::overwrite);  // the update needs the centres of the sums: the running means
  r.running_stats_op->update(r.eval_stats(), r.bn_batch_sums(), static_cast<float>(sampler_.samples()), true, {});
  r.device.synchronize();
  return true;
}

}  // namespace ddp
