// The fault that --inject rehearses in this run.
#pragma once

#include "train/fault_injection.h"
#include "train/saving/save_schedule.h"

#include <cstdint>
#include <optional>
#include <string>

namespace ddp {

// Parses --inject. Returns nullopt for an empty text. Throws Error(Exit::usage) for an invalid text, or for a rank
// outside the world of `world` ranks.
std::optional<FaultInjection> injection_of(const std::string& text, int world);

// Throws Error(Exit::usage) if the fault cannot occur in the steps from done + 1 to total, or if it is enospc and the
// run saves no checkpoints.
void require_it_happens(const FaultInjection& injection, const std::string& text, const SaveEvery& save_every,
                        int64_t done, int64_t total);

}  // namespace ddp
