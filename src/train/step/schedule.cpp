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
  }
  return d.lr;
}

double lr_after(const ScheduleDesc& d, double epochs) {
  if (epochs >= d.warm_up_epochs) return main_lr(d, epochs - d.warm_up_epochs);
  const double share = d.warm_up == ScheduleDesc::WarmUp::linear ? epochs / d.warm_up_epochs : 0;
  return d.lr * (d.warm_up_factor + (1 - d.warm_up_factor) * share);
}

constexpr const char* kNames[] = {"constant", "in steps", "at milestones", "cosine", "linear"};  // by kind

}  // namespace

double lr_at(const ScheduleDesc& desc, int64_t samples_seen, int64_t dataset_size) {
  DDP_EXPECT(samples_seen >= 0 && dataset_size > 0);
  return lr_after(desc, static_cast<double>(samples_seen) / static_cast<double>(dataset_size));
}

std::string describe(const ScheduleDesc& d) {
  std::string text = fmt::format("lr {:.4g}", lr_after(d, 0));
  if (d.warm_up_epochs > 0) text += fmt::format(", {:.4g} after {:g} epochs", main_lr(d, 0), d.warm_up_epochs);
  if (d.kind == ScheduleDesc::Kind::constant) return text;
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
