// What the parts of training share on a device: the kinds of work that are recorded (device/graph_cache.h), and who
// takes which fences (device/device.h).
#pragma once

#include "comm/staged.h"
#include "train/feed.h"

namespace ddp {

// A training step is recorded by micro-batches, which differ in whether they begin and whether they end it.
inline constexpr int kEvaluationStep = 0, kFirstPreciseBn = 1, kPreciseBn = 2, kTrainingStep = 3;
constexpr int training_step(bool begins, bool ends) { return kTrainingStep + (begins ? 1 : 0) + (ends ? 2 : 0); }

inline constexpr int kStepsInFlight = 2, kStepSlots = kStepsInFlight + 1;
inline constexpr int kStepFences = 0, kTrainingFences = kStepFences + kStepSlots;
inline constexpr int kEvaluationFences = kTrainingFences + Feed::kFences;
inline constexpr int kTransportFences = kEvaluationFences + Feed::kFences;  // of two communicators
static_assert(kTransportFences + 2 * kStagedFences <= Device::kFences);

}  // namespace ddp
