// Reduces the learning rate when evaluations stop getting better: torch.optim.lr_scheduler.ReduceLROnPlateau with
// threshold_mode "rel" and eps 1e-8. A pure decision.
#pragma once

#include "checkpoint/run_state.h"

#include <cstdint>

namespace ddp {

struct PlateauDesc {
  enum class Metric : uint8_t { loss, accuracy };

  Metric metric = Metric::loss;
  int64_t patience = 10;    // bad evaluations in a row that change nothing
  double threshold = 1e-4;  // a loss is better below best * (1 - threshold), an accuracy above best * (1 + threshold)
  int64_t cooldown = 0;     // evaluations after a reduction in which none counts as bad
};

// Takes in the next evaluation: `metric` is its loss or its accuracy. A reduction multiplies state.factor by `gamma`,
// where lr * factor stays at least min_lr.
void observe(const PlateauDesc& desc, double lr, double gamma, double min_lr, double metric, PlateauState& state);

}  // namespace ddp
