#include "train/evaluation/judgement.h"

#include "train/step/plateau.h"

namespace ddp {

void begin_judging(const Judgement& judgement, RunState& state) {
  if (judgement.schedule.kind != ScheduleDesc::Kind::plateau)
    state.plateau.reset();
  else if (!state.plateau)
    state.plateau.emplace();
  if (judgement.early_stop == 0)
    state.early_stop.reset();
  else if (!state.early_stop)
    state.early_stop.emplace();
}

bool judge(const Judgement& judgement, const Evaluation& evaluation, EvaluationPlace place, RunState& state) {
  const ScheduleDesc& s = judgement.schedule;
  const double judged = evaluation.judged_accuracy();
  state.evaluation_due = false;
  state.bn_stats_samples = evaluation.statistics_samples;
  state.accuracy = evaluation.accuracy();
  if (place.regular && state.plateau && static_cast<double>(place.epoch) >= s.warm_up_epochs) {
    const bool by_loss = s.plateau.metric == PlateauDesc::Metric::loss;
    observe(s.plateau, s.lr, s.gamma, s.min_lr, by_loss ? evaluation.loss : evaluation.accuracy(), *state.plateau);
  }
  if (place.regular && state.early_stop) {
    EarlyStopState& stop = *state.early_stop;
    ++stop.bad;
    if (judged > stop.best) stop = {.best = judged, .best_epoch = place.epoch, .bad = 0};
  }
  if (!(judged > state.best_accuracy)) return false;
  state.best_accuracy = judged;
  state.best_epoch = place.epoch;
  return true;
}

bool stops_early(int64_t early_stop, const RunState& state) {
  return early_stop > 0 && state.early_stop && state.early_stop->bad >= early_stop;
}

}  // namespace ddp
