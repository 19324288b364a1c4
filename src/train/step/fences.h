// The fence slots (device/device.h) of each user in train and of the transport.
#pragma once

#include "comm/staged.h"
#include "train/step/prefetcher.h"

namespace ddp {

inline constexpr int kStepsInFlight = 2, kStepSlots = kStepsInFlight + 1;
inline constexpr int kStepFences = 0, kTrainingFences = kStepFences + kStepSlots;
inline constexpr int kEvaluationFences = kTrainingFences + Prefetcher::kFences;
inline constexpr int kTransportFences = kEvaluationFences + Prefetcher::kFences;  // of two staged communicators
static_assert(kTransportFences + 2 * kStagedFences <= Device::kFences);

}  // namespace ddp
