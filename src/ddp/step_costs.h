// What the parts of a step cost, measured by the ranks that train. Times in ms; equal on all ranks.
#pragma once

#include <cstdint>
#include <vector>

namespace ddp {

// One collective of gradients over all ranks costs latency_ms + MiB of the span in f32 * ms_per_mib.
struct LinkCost {
  double latency_ms = 0, ms_per_mib = 0;
  double ms(int64_t elements) const { return latency_ms + static_cast<double>(elements) * 4 / (1 << 20) * ms_per_mib; }
};

struct StepCosts {
  // By trained parameter in flat-buffer order: from the start of the step's last micro-batch until its gradient is
  // final. Never falls.
  std::vector<double> ready_ms = {};
  double compute_ms = 0;  // forward and backward pass of one micro-batch; at least ready_ms.back()
  LinkCost link = {};     // 0 with one rank
  // What each bucket costs besides its collective: the launch by the computing thread, and with sharded optimizer state
  // the latency of the gather of its weights.
  double bucket_ms = 0;
};

}  // namespace ddp
