// The learning rate: a pure function of how many samples the run has seen before a step, so the same for any number of
// ranks. With t the epochs seen, W those of warm-up and T all, and u = t - W (as torch.optim.lr_scheduler.SequentialLR,
// the schedule proper begins when the warm-up has ended):
//
//   t < W        lr * warm_up_factor, or rising on a line from there to lr
//   constant     lr
//   step         lr * gamma^floor(u / step_epochs)
//   multi_step   lr * gamma^(how many milestones are <= u)
//   cosine       min_lr + (lr - min_lr) * (1 + cos(pi * u / (T - W))) / 2   (Loshchilov and Hutter, 2017)
//   linear       lr + (min_lr - lr) * u / (T - W)
//
// A parameter group with a rate of its own has lr_at() times the ratio of its rate and `lr`, so also its min_lr
// differs.
//
// At whole epochs these are the values of torchvision's train.py. Between them warm-up, cosine and linear move on with
// every step, where PyTorch's schedulers stand still until the epoch ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddp {

struct ScheduleDesc {
  enum class Kind : uint8_t { constant, step, multi_step, cosine, linear };
  enum class WarmUp : uint8_t { linear, constant };

  Kind kind = Kind::constant;
  double lr = 0.2;
  double total_epochs = 10;  // must exceed warm_up_epochs for cosine and linear
  double warm_up_epochs = 0;
  WarmUp warm_up = WarmUp::linear;
  double warm_up_factor = 0.01;
  double step_epochs = 30;
  std::vector<double> milestones = {};  // ascending epochs
  double gamma = 0.1;
  double min_lr = 0;
};

// The learning rate of the next step. After total_epochs it keeps the last value.
double lr_at(const ScheduleDesc& desc, int64_t samples_seen, int64_t dataset_size);

// Text for the banner, such as "lr 0.001, 0.1 after 5 epochs, 0 at the end of epoch 90 (cosine)".
std::string describe(const ScheduleDesc& desc);

// Scales a rate that was tuned for the global batch size `base_batch` to `batch`. none: unchanged; linear: times the
// ratio; sqrt: times its square root.
enum class RateScale : uint8_t { none, linear, sqrt };
double scaled_lr(double lr, RateScale scale, int64_t batch, int64_t base_batch);

}  // namespace ddp
