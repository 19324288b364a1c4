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
//   polynomial   lr * (1 - u / (T - W))^power   (torch.optim.lr_scheduler.PolynomialLR)
//   one_cycle    with k the steps done, N those of T epochs, p = pct_start * N - 1 and l = lr / div_factor:
//                from l to lr by k / p, then to l / final_div_factor by (k - p) / (N - 1 - p), where "from a to b by x"
//                is b + (a - b) * (1 + cos(pi * x)) / 2, or a + (b - a) * x (Smith and Topin, 2018;
//                torch.optim.lr_scheduler.OneCycleLR with two phases, without its cycle of the momentum)
//   plateau      lr; the trainer multiplies it by the factor of the evaluations so far (plateau.h)
//
// A parameter group with a rate of its own has lr_at() times the ratio of its rate and `lr`, so also its min_lr
// differs.
//
// At whole epochs these are the values of torchvision's train.py. Between them warm-up, cosine, linear and polynomial
// move on with every step, where PyTorch's schedulers stand still until the epoch ends.
#pragma once

#include "train/step/plateau.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ddp {

struct ScheduleDesc {
  enum class Kind : uint8_t { constant, step, multi_step, cosine, linear, polynomial, one_cycle, plateau };
  enum class WarmUp : uint8_t { linear, constant };
  enum class Anneal : uint8_t { cosine, linear };

  Kind kind = Kind::constant;
  double lr = 0.2;
  double total_epochs = 10;  // must exceed warm_up_epochs for cosine, linear and polynomial
  double warm_up_epochs = 0;
  WarmUp warm_up = WarmUp::linear;
  double warm_up_factor = 0.01;
  double step_epochs = 30;
  std::vector<double> milestones = {};  // ascending epochs
  double gamma = 0.1;                   // of step, multi_step and plateau
  double min_lr = 0;                    // of cosine, linear and plateau
  double power = 1;
  double pct_start = 0.3;  // of one_cycle, as the next four
  double div_factor = 25, final_div_factor = 1e4;
  Anneal anneal = Anneal::cosine;
  int64_t batch_size = 1;  // samples of a step
  PlateauDesc plateau = {};
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
