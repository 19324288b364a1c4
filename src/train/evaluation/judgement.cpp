#include "train/evaluation/judgement.h"

#include "train/step/plateau.h"

#include <cmath>

namespace ddp {
namespace {

bool is_lower(double loss, const std::optional<double>& best) { return std::isfinite(loss) && (!best || loss < *best); }

}  // namespace

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
  const bool by_loss = evaluation.of_tokens();
  const double accuracy = evaluation.judged_accuracy(), loss = evaluation.judged_loss();
  state.evaluation_due = false;
  state.bn_stats_samples = evaluation.statistics_samples;
  state.accuracy = evaluation.accuracy();
  if (place.regular && state.plateau && static_cast<double>(place.epoch) >= s.warm_up_epochs) {
    const bool of_loss = s.plateau.metric == PlateauDesc::Metric::loss;
    observe(s.plateau, s.lr, s.gamma, s.min_lr, of_loss ? evaluation.loss : evaluation.accuracy(), *state.plateau);
  }
  if (place.regular && state.early_stop) {
    EarlyStopState& stop = *state.early_stop;
    ++stop.bad;
    if (by_loss && is_lower(loss, stop.best_loss)) stop = {.best_epoch = place.epoch, .best_loss = loss};
    if (!by_loss && accuracy > stop.best) stop = {.best = accuracy, .best_epoch = place.epoch};
  }
  if (by_loss ? !is_lower(loss, state.best_loss) : !(accuracy > state.best_accuracy)) return false;
  if (by_loss)
    state.best_loss = loss;
  else
    state.best_accuracy = accuracy;
  state.best_epoch = place.epoch;
  return true;
}

bool stops_early(int64_t early_stop, const RunState& state) {
  return early_stop > 0 && state.early_stop && state.early_stop->bad >= early_stop;
}

}  // namespace ddp
