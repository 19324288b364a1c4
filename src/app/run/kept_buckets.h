// The measured buckets of a run, as the text that RunState::autotune keeps. It comes from a file that a stranger may
// have written.
#pragma once

#include "ddp/bucket_plan.h"
#include "ddp/step_costs.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

inline constexpr const char* kBucketsEntry = "buckets";  // of RunState::autotune

struct KeptBuckets {
  std::vector<ParameterId> begins;
  StepCosts costs;  // that they were planned from
};

std::string kept_text(const BucketPlan& plan, const StepCosts& costs);  // JSON

// Nothing where the text is not that of possible buckets of this number of parameters, and of possible costs.
std::optional<KeptBuckets> kept_buckets_from(const std::string& text, int64_t parameters);

}  // namespace ddp
