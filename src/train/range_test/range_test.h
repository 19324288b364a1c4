// Trains through the rates of a learning-rate range test, on the batches of a run's first steps.
#pragma once

#include "data/dataset.h"
#include "data/sampler.h"
#include "health/phase_tracker.h"
#include "train/range_test/lr_curve.h"
#include "train/step/device_dataset.h"
#include "train/step/replica.h"
#include "train/step/step_result.h"

#include <functional>
#include <string>

namespace ddp {

struct RangeTest {
  LrCurve curve;
  std::string end;       // why it ended before the last step; empty: it did not
  bool stopped = false;  // on request
};

struct RangeTestConfig {
  LrRange range;
  StepConfig step;  // with the request of this rank
  DataPlacement data;
  std::function<void()> on_error = [] {};  // as Observers::on_error
};

// Changes the weights of the replica. Collective; all ranks return the same. A step with NaN or infinity ends the test
// without an error.
RangeTest test_lr_range(const RangeTestConfig& config, Replica& replica, const Dataset& data,
                        const DistributedSampler& sampler, PhaseTracker& phases);

}  // namespace ddp
