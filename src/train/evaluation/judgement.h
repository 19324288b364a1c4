// What an evaluation decides about the run: whether it is the best so far, by its accuracy or for tokens by its loss,
// the plateau of the learning rate, and the early stop. Pure decisions. An evaluation is equal on all ranks, so all
// ranks decide alike.
#pragma once

#include "checkpoint/run_state.h"
#include "train/evaluation/evaluation.h"
#include "train/step/schedule.h"

#include <cstdint>

namespace ddp {

struct Judgement {
  ScheduleDesc schedule = {};
  int64_t early_stop = 0;  // evaluations in a row without a better one that end the run; 0: none
};

struct EvaluationPlace {
  int64_t epoch = 0;  // from 1
  // Asked for by --eval-every, and new: not the one at the end of the run inside an epoch, which a run that goes on
  // does not have. Only such evaluations change the learning rate or end the run. Those of the warm-up do not change
  // the rate.
  bool regular = false;
};

// Prepares the state of a run: it has the parts of this schedule and of the early stop, as they are or new.
void begin_judging(const Judgement& judgement, RunState& state);

// Takes an evaluation into the state. Returns whether it is the best so far: by its judged_accuracy(), or for tokens by
// its judged_loss(), which must be finite.
bool judge(const Judgement& judgement, const Evaluation& evaluation, EvaluationPlace place, RunState& state);

bool stops_early(int64_t early_stop, const RunState& state);

}  // namespace ddp
