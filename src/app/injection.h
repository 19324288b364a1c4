// The fault that --inject rehearses in this run.
#pragma once

#include "train/fault_injection.h"
#include "train/save_schedule.h"

#include <cstdint>
#include <optional>
#include <string>

namespace ddp {

// None for an empty text. Throws Error(Exit::usage) for a broken text or a rank that does not exist.
std::optional<FaultInjection> injection_of(const std::string& text, int world);

// Throws Error(Exit::usage) where the run, which does the steps from done + 1 to total, would never have the fault.
void require_it_happens(const FaultInjection& injection, const std::string& text, const SaveEvery& save_every,
                        int64_t done, int64_t total);

}  // namespace ddp
