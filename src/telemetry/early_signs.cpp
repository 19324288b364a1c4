#include "telemetry/early_signs.h"

#include "core/log.h"
#include "core/printable.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

namespace ddp {
namespace {

void print(const std::optional<std::string>& hint) {
  if (hint) write_text(stdout, fmt::format("hint: {}\n", *hint));
}

std::string cores_text(const std::vector<int>& cores, int usable) {
  constexpr size_t kShown = 8;
  if (cores.size() > kShown || std::cmp_less(usable, cores.size()))
    return fmt::format("{} core{}", usable, usable == 1 ? "" : "s");
  return fmt::format("core{} {}", cores.size() == 1 ? "" : "s", fmt::join(cores, ", "));
}

}  // namespace

// What a network with equal outputs has: ln(classes). A little below it is no learning either.
std::optional<std::string> hint_of_loss(double loss, int64_t classes, int64_t steps, double lr) {
  constexpr double kFallen = 0.98, kRisen = 1.1;
  if (classes < 2) return std::nullopt;
  const double guessing = std::log(static_cast<double>(classes));
  if (loss < kFallen * guessing || !std::isfinite(loss)) return std::nullopt;
  return fmt::format(
      "the loss has not fallen below that of guessing, ln({}) = {:.2f}: it is {:.4g} after {} steps; try {} (now "
      "{:.3g})",
      classes, guessing, loss, steps, loss > kRisen * guessing ? "a lower --lr" : "another --lr", lr);
}

// Near a loss of 0, or in a small batch, one hard sample makes three times the mean. So the step must also be worse
// than guessing, and in sum as bad as kSamples samples that are guessed: what a network has learnt is lost.
std::optional<std::string> hint_of_jump(const StepResult& step, double mean, int64_t classes, bool clips) {
  constexpr double kTimes = 3, kSamples = 64;
  if (classes < 2 || !std::isfinite(step.loss)) return std::nullopt;
  const double share = std::min(static_cast<double>(step.samples) / kSamples, 1.0);
  if (!(step.loss > kTimes * mean && share * step.loss > std::log(static_cast<double>(classes)))) return std::nullopt;
  return fmt::format(
      "the loss jumped at step {}: {:.4g}, {:.3g} times the mean of the last {} steps ({:.4g}); try a lower --lr (now "
      "{:.3g}){}",
      step.step, step.loss, step.loss / mean, LastLosses::kLast, mean, step.lr, clips ? "" : ", or --clip-grad-norm 1");
}

std::optional<std::string> hint_of_gradients(const std::vector<std::string>& zero, int64_t parameters) {
  if (zero.empty()) return std::nullopt;
  return fmt::format(
      "the gradients of {} of {} parameters are zero, so they do not learn ({}); --init default gives other weights, "
      "and a lower --lr keeps ReLUs from dying",
      zero.size(), parameters, first_names(zero));
}

std::optional<std::string> hint_of_data(const StepSpeed& speed, int64_t steps, int workers) {
  constexpr double kShare = 0.1, kLeastMs = 500;
  const StepTimes& step = speed.critical();
  const double total = step.total();
  if (!(step.data > kShare * total) || !(total * static_cast<double>(steps) >= kLeastMs)) return std::nullopt;
  const std::string what =
      workers > 0 ? fmt::format("more --workers read and decode pictures ahead (now {})", workers)
                  : "a lower --threads leaves a core to the loader, a larger --batch-size gives it more time";
  return fmt::format("rank {} waits for data {:.0f} % of a step; {}", speed.slowest(), 100 * step.data / total, what);
}

std::optional<std::string> hint_of_cores(const std::vector<RankCores>& ranks) {
  std::map<std::pair<std::string, std::vector<int>>, int> sharing;  // ranks with the same cores
  for (const RankCores& rank : ranks) ++sharing[{rank.host, rank.cores}];
  for (const RankCores& rank : ranks) {
    const int count = sharing[{rank.host, rank.cores}];
    if (rank.cores.empty() || count <= rank.usable) continue;
    return fmt::format(
        "{} ranks share {} of {}, so they take turns; start fewer ranks (mpirun -np), or bind each to cores of its own "
        "(mpirun --bind-to core); --doctor shows the cores",
        count, cores_text(rank.cores, rank.usable), printable(rank.host));
  }
  return std::nullopt;
}

bool LossSign::add(double loss, double lr) {
  if (lr > lr_) steps_ = 0;
  lr_ = lr;
  if (steps_ < kSteps) last_[steps_ % kLast] = loss;
  return ++steps_ == kSteps;
}

double LossSign::mean() const {
  double sum = 0;
  int count = 0;
  for (const double loss : last_) {
    if (!std::isfinite(loss)) continue;
    sum += loss;
    ++count;
  }
  return sum / count;
}

void LastLosses::add(double loss) {
  if (std::isfinite(loss)) last_[count_++ % kLast] = loss;
}

std::optional<double> LastLosses::mean() const {
  if (count_ < kLast) return std::nullopt;
  return std::accumulate(last_.begin(), last_.end(), 0.0) / kLast;
}

EarlySigns::EarlySigns(EarlySignsConfig config) : config_(std::move(config)) { print(hint_of_cores(config_.cores)); }

void EarlySigns::step(const StepResult& r) {
  last_loss_ = r.loss;
  ++steps_;
  if (loss_.add(r.loss, r.lr)) print(hint_of_loss(loss_.mean(), config_.classes, LossSign::kSteps, r.lr));
  if (const auto mean = last_losses_.mean(); mean && !jump_said_) {
    const auto hint = hint_of_jump(r, *mean, config_.classes, config_.clips);
    jump_said_ = hint.has_value();
    print(hint);
  }
  last_losses_.add(r.loss);
}

// Where a network has learnt its data by heart, there is nothing left to learn.
void EarlySigns::gradients(const std::vector<std::string>& zero) {
  constexpr double kLearnt = 0.01;
  if (last_loss_ > kLearnt) print(hint_of_gradients(zero, config_.parameters));
}

void EarlySigns::speed(int64_t, int64_t, const StepSpeed& speed) {
  const auto hint = hint_of_data(speed, std::exchange(steps_, 0), config_.workers);
  if (!hint || std::exchange(data_said_, true)) return;
  print(hint);
}

}  // namespace ddp
