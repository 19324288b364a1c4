// The timeline of the step whose duration is the median.
#pragma once

#include "train/step/step_timeline.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ddp {

// Whether a timeline shows the span: a phase of a step, forward or backward, or a bucket.
bool in_timeline(const Span& span);

// `ranks`: such spans, by rank. Only a step that all ranks have counts; nullopt if there is none.
std::optional<StepTimeline> typical_step(std::span<const std::vector<Span>> ranks);

}  // namespace ddp
