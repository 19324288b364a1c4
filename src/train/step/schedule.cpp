#include "train/step/schedule.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ddp {
namespace {

// The learning rate u epochs after the warm-up.
double main_lr(const ScheduleDesc& d, double u) {
  const double span = d.total_epochs - d.warm_up_epochs, share = span > 0 ? std::min(u / span, 1.0) : 1.0;
  switch (d.kind) {
    case ScheduleDesc::Kind::constant: break;
    case ScheduleDesc::Kind::step: return d.lr * std::pow(d.gamma, std::floor(u / d.step_epochs));
    case ScheduleDesc::Kind::multi_step: {
      const auto passed = std::upper_bound(d.milestones.begin(), d.milestones.end(), u) - d.milestones.begin();
      return d.lr * std::pow(d.gamma, static_cast<double>(passed));
    }
    case ScheduleDesc::Kind::cosine: return d.min_lr + (d.lr - d.min_lr) * (1 + std::cos(std::numbers::pi * share)) / 2;
    case ScheduleDesc::Kind::linear: return d.lr * (1 - share) + d.min_lr * share;
    case ScheduleDesc::Kind::polynomial: return d.lr * std::pow(1 - share, d.power);
    case ScheduleDesc::Kind::one_cycle:
    case ScheduleDesc::Kind::plateau: break;
  }
  return d.lr;
}

double lr_after(const ScheduleDesc& d, double epochs) {
  if (epochs >= d.warm_up_epochs) return main_lr(d, epochs - d.warm_up_epochs);
  const double share = d.warm_up == ScheduleDesc::WarmUp::linear ? epochs / d.warm_up_epochs : 0;
  return d.lr * (d.warm_up_factor + (1 - d.warm_up_factor) * share);
}

double annealed(const ScheduleDesc& d, double from, double to, double share) {
  if (d.anneal == ScheduleDesc::Anneal::linear) return from + (to - from) * share;
  return to + (from - to) / 2 * (std::cos(std::numbers::pi * share) + 1);
}

double first_of_cycle(const ScheduleDesc& d) { return d.lr / d.div_factor; }
double last_of_cycle(const ScheduleDesc& d) { return first_of_cycle(d) / d.final_div_factor; }

double one_cycle_lr(const ScheduleDesc& d, int64_t step, int64_t steps) {
  const auto last = static_cast<double>(steps - 1);
  const double at = std::min(static_cast<double>(step), last), peak = d.pct_start * static_cast<double>(steps) - 1;
  if (at <= peak) return annealed(d, first_of_cycle(d), d.lr, peak > 0 ? at / peak : 1);
  return annealed(d, d.lr, last_of_cycle(d), (at - peak) / (last - peak));
}

constexpr const char* kNames[] = {"constant", "in steps", "at milestones",
                                  "cosine",   "linear",   "polynomial"};  // by kind

}  // namespace

double lr_at(const ScheduleDesc& desc, int64_t samples_seen, int64_t dataset_size) {
  DDP_EXPECT(samples_seen >= 0 && dataset_size > 0);
  if (desc.kind == ScheduleDesc::Kind::one_cycle) {
    const int64_t steps_per_epoch = (dataset_size + desc.batch_size - 1) / desc.batch_size;
    const int64_t step = samples_seen / dataset_size * steps_per_epoch + samples_seen % dataset_size / desc.batch_size;
    return one_cycle_lr(desc, step, std::llround(desc.total_epochs * static_cast<double>(steps_per_epoch)));
  }
  return lr_after(desc, static_cast<double>(samples_seen) / static_cast<double>(dataset_size));
}

std::string describe(const ScheduleDesc& d) {
  if (d.kind == ScheduleDesc::Kind::one_cycle)
    return fmt::format("lr {:.4g}, {:.4g} after {:.3g} epochs, {:.4g} at the end of epoch {:g} (one cycle)",
                       first_of_cycle(d), d.lr, d.pct_start * d.total_epochs, last_of_cycle(d), d.total_epochs);
  std::string text = fmt::format("lr {:.4g}", lr_after(d, 0));
  if (d.warm_up_epochs > 0) text += fmt::format(", {:.4g} after {:g} epochs", main_lr(d, 0), d.warm_up_epochs);
  if (d.kind == ScheduleDesc::Kind::constant) return text;
  if (d.kind == ScheduleDesc::Kind::plateau)
    return text + fmt::format(", times {:g} after more than {} evaluations without a better {}", d.gamma,
                              d.plateau.patience, d.plateau.metric == PlateauDesc::Metric::loss ? "loss" : "accuracy");
  const bool falls_at_once = d.kind == ScheduleDesc::Kind::step || d.kind == ScheduleDesc::Kind::multi_step;
  const double end = falls_at_once ? std::nextafter(d.total_epochs, 0) : d.total_epochs;  // no step uses a fall there
  return text + fmt::format(", {:.4g} at the end of epoch {:g} ({})", lr_after(d, end), d.total_epochs,
                            kNames[static_cast<int>(d.kind)]);
}

double scaled_lr(double lr, RateScale scale, int64_t batch, int64_t base_batch) {
  DDP_EXPECT(batch > 0 && base_batch > 0);
  if (scale == RateScale::none) return lr;
  const double ratio = static_cast<double>(batch) / static_cast<double>(base_batch);
  return lr * (scale == RateScale::linear ? ratio : std::sqrt(ratio));
}

}  // namespace ddp
