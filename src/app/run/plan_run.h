// Stage 2 of a run: device, ops, transport and replica. They fix the bucket plan and the memory of this rank.
//
// The order of the members is load-bearing: each uses members before it, and they are destroyed in reverse order. The
// resume point comes before the ops, because a resumed run takes the algorithms of its ops from its checkpoint.
#pragma once

#include "app/machine/autotune_cache.h"
#include "app/machine/factory.h"
#include "app/run/open_job.h"
#include "app/run/resume_point.h"
#include "comm/communicator.h"
#include "ddp/step_costs.h"
#include "nn/model.h"
#include "ops/ops.h"
#include "train/step/replica.h"

#include <memory>
#include <optional>
#include <vector>

namespace ddp {

struct PlannedRun {
  Backend backend;
  int threads;  // of a CPU rank; 1 with a GPU
  ResumePoint resume_point;
  std::unique_ptr<AutotuneCache> autotune;
  std::unique_ptr<Ops> ops;
  std::unique_ptr<Communicator> own_transport;  // null for a CPU: the job's `world` is the transport
  PixelNormalization pixels;                    // of the images; a resumed run has those of its checkpoint
  std::unique_ptr<Replica> replica;             // weights 0
  std::unique_ptr<Model> validation_model;      // of the job's validation_network, on the replica's weights; or null
  std::unique_ptr<Model> average_model;         // of the network that is evaluated, on the replica's average; or null
  std::optional<StepCosts> costs = {};          // that the bucket plan was made from; none: they were not measured
  bool last_step_learns = true;                 // false: a batch norm has a single value in the last step of an epoch
};

// With --batch-size max it settles the batch of the job. The job outlives the result. Collective. Throws
// CollectiveError: Exit::device, Exit::data or Exit::usage, also where a batch norm has a single value in every step.
PlannedRun plan_run(Job& job, ResumePoint resume_point);

// Plans the models again for the batch sizes of `samplers`, while no device work is in flight. Collective.
void plan_models(const Job& job, const PlannedRun& run, const Samplers& samplers);

// Whether batch norms have several values in as many steps with these weights of the ranks as with equal ones.
bool allows_weights(const Job& job, const std::vector<double>& weights);

// The watchdog counts the collectives of the steps until the result is destroyed.
[[nodiscard]] Watchdog::MonitorGuard monitor_steps(const Job& job, const Replica& replica);

}  // namespace ddp
