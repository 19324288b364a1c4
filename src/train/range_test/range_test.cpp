#include "train/range_test/range_test.h"

#include "core/error.h"
#include "train/step/fences.h"
#include "train/step/prefetcher.h"
#include "train/step/step.h"
#include "train/step/training_placement.h"

#include <optional>

namespace ddp {
namespace {

// Returns whether the test goes on after this step.
bool record(const StepResult& result, RangeTest& test) {
  if (result.request == Request::stop) test.stopped = true;
  if (test.stopped) return false;
  if (result.samples == 0) return true;  // no picture of the step could be read
  if (test.curve.add(result.lr, result.loss)) return true;
  test.end = fmt::format("the smoothed loss rose above {:g} times its least value", LrCurve::kMostRise);
  return false;
}

}  // namespace

RangeTest test_lr_range(const RangeTestConfig& config, Replica& replica, const Dataset& data,
                        const DistributedSampler& sampler, PhaseTracker& phases) {
  RangeTest test;
  DeviceDataset on_device(replica.device, data, sampler.largest_shard(), of_training(config.data, replica));
  Step step(replica, config.step, &phases);
  Prefetcher prefetcher(on_device, sampler, 0, config.range.steps, kTrainingFences);
  const NextBatch next = [&]() -> const DeviceBatch& { return prefetcher.next(); };
  try {
    bool goes_on = true;
    for (int64_t k = 0; k < config.range.steps && goes_on; ++k)
      if (const auto result = step.run(next, lr_of_step(config.range, k))) goes_on = record(*result, test);
    for (const StepResult& result : step.drain()) goes_on = goes_on && record(result, test);
  } catch (const CollectiveError& e) {
    if (e.code() != Exit::numerics) {
      config.on_error();
      throw;
    }
    test.end = "the loss or a gradient was not finite";
  } catch (...) {
    config.on_error();
    throw;
  }
  return test;
}

}  // namespace ddp
