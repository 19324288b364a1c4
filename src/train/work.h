// What the parts of training share on a device: the kinds of work that are recorded (device/recorder.h), and who takes
// which fences (device/device.h).
#pragma once

#include "comm/staged.h"
#include "train/feed.h"

namespace ddp {

inline constexpr int kTrainingStep = 0, kEvaluationStep = 1;

inline constexpr int kStepsInFlight = 2, kStepSlots = kStepsInFlight + 1;
inline constexpr int kStepFences = 0, kTrainingFences = kStepFences + kStepSlots;
inline constexpr int kEvaluationFences = kTrainingFences + Feed::kFences;
inline constexpr int kTransportFences = kEvaluationFences + Feed::kFences;
static_assert(kTransportFences + kStagedFences <= Device::kFences);

}  // namespace ddp
