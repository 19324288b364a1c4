#include "train/step/step.h"

#include "core/error.h"
#include "train/step/residual.h"

namespace ddp {

Step::Step(Replica& replica, const StepConfig& config, PhaseTracker* phases, SpanRecorder* spans)
    : replica_(replica),
      micro_batches_(config.micro_batches),
      trace_(spans ? std::make_optional<StepTrace>(replica, *spans, config.micro_batches) : std::nullopt),
      graphs_(replica.device.graph_cache()),
      observer_(replica, phases, trace_ ? &*trace_ : nullptr),
      in_flight_(replica, config) {}

std::optional<StepResult> Step::run(const NextBatch& next, double lr, double average_rate) {
  auto finished = in_flight_.full() ? std::make_optional(retire()) : std::nullopt;

  const int64_t step = in_flight_.issued() + 1;
  for (int micro = 0; micro < micro_batches_; ++micro) {
    observer_.phase(Phase::data, step);
    const DeviceBatch& batch = next();
    DDP_EXPECT(batch.plan.micro == micro);
    observer_.phase(Phase::compute, step);
    const GraphKey key{micro, batch.plan.step_size};
    observer_.begin_work(key, in_flight_.empty());
    if (micro == 0)
      in_flight_.push(batch, replica_.optimizer.scalars_for(lr, step)).lr = lr;
    else
      in_flight_.add(batch);
    const auto work = [&] {
      compute(batch);
      observer_.end_work();
    };
    // std::ref, so that std::function allocates no copy.
    replica_.run(batch.uncaptured ? nullptr : graphs_.get(), key, std::ref(work));
    observer_.end_work();  // a replayed graph has not called it
  }
  if (average_rate > 0) replica_.update_average(static_cast<float>(average_rate));
  in_flight_.download(observer_.end_step());
  return finished;
}

// Steps of equal size issue equal device work, so a graph may replay it. The values that differ are in the memory of
// the batch and in the step's block: ticket, optimizer scalars, epoch, mix, ids (step_block.h).
//
// The launch hook marks block.bad() where this rank has NaN or infinity, before the sum. The sums give all ranks the
// same marks. Where one is set, optimizer.step() changes nothing on any rank. The host reads the marks when it retires
// the step, two steps later: it ends the run or reports a skipped step.
void Step::compute(const DeviceBatch& batch) {
  auto& model = replica_.model;
  auto& reducer = replica_.reducer;
  auto& optimizer = replica_.optimizer;
  const auto& block = replica_.block;
  const auto gradient_ready = [&](int id) { reducer.ready(id); };

  if (batch.plan.micro == 0) {
    observer_.timestamp(StepBlock::kBegin);
    // An empty batch writes no gradients. Sharded sums leave undefined values in the gaps between tensors, and sums in
    // int8 leave NaN there after a bad step.
    if (batch.size == 0 || reducer.sharded() || replica_.sums_in_int8()) replica_.zero_gradients();
  }
  if (batch.plan.micro + 1 < micro_batches_) return accumulate(batch);

  reducer.begin();
  model.forward_backward(batch, gradient_ready);
  reducer.finish();
  optimizer.step(block.scalars(), block.bad());

  if (replica_.sums_in_int8()) take_residual(replica_);
  replica_.update_running_stats(batch.plan.step_size);
  model.bind(optimizer.rounds_weights(), true);
  observer_.timestamp(StepBlock::kWeights);
}

// One rank's parts of the gradient, for the noise scale, are those of its micro-batches.
void Step::accumulate(const DeviceBatch& batch) {
  replica_.model.forward_backward(batch);
  if (batch.plan.micro > 0 || replica_.communicator.size() > 1) return;
  replica_.ops.sum_of_squares(replica_.gradients(), replica_.plan.gradients, replica_.block.local_squares(),
                              Gradient::overwrite);
}

StepResult Step::retire() {
  const int64_t step = in_flight_.retired() + 1;
  observer_.phase(Phase::device, step);
  in_flight_.await_oldest();
  observer_.retired(step);
  return in_flight_.retire();
}

std::vector<StepResult> Step::drain() {
  std::vector<StepResult> results;
  while (!in_flight_.empty()) results.push_back(retire());
  return results;
}

}  // namespace ddp
