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

// What a network with equal outputs has: ln(classes). A little below it is no learning either. The least loss is the
// entropy of the smoothed label.
std::optional<std::string> hint_of_loss(double loss, int64_t classes, int64_t steps, double lr, double smoothing) {
  constexpr double kFallen = 0.02, kRisen = 1.1;
  if (classes < 2) return std::nullopt;
  const auto n = static_cast<double>(classes);
  const double guessing = std::log(n), other = smoothing / n, own = 1 - smoothing + other;
  const double least = smoothing > 0 ? -own * std::log(own) - (n - 1) * other * std::log(other) : 0;
  const double to_learn = guessing - least;
  if (to_learn < kFallen * guessing || loss < guessing - kFallen * to_learn || !std::isfinite(loss))
    return std::nullopt;
  return fmt::format(
      "the loss has not fallen below that of guessing, ln({}) = {:.2f}: it is {:.4g} after {} steps; try {} (now "
      "{:.3g})",
      classes, guessing, loss, steps, loss > kRisen * guessing ? "a lower --lr" : "another --lr", lr);
}

// Near a loss of 0, or in a small batch, one hard label makes three times the mean. So the step must also be worse
// than guessing, and in sum as bad as kLabels labels that are guessed: what a network has learnt is lost.
std::optional<std::string> hint_of_jump(const StepResult& step, double mean, int64_t classes, bool clips) {
  constexpr double kTimes = 3, kLabels = 64;
  if (classes < 2 || !std::isfinite(step.loss)) return std::nullopt;
  const int64_t labels = step.sequence_length > 0 ? step.tokens() : step.samples;
  const double share = std::min(static_cast<double>(labels) / kLabels, 1.0);
  if (!(step.loss > kTimes * mean && share * step.loss > std::log(static_cast<double>(classes)))) return std::nullopt;
  return fmt::format(
      "the loss jumped at step {}: {:.4g}, {:.3g} times the mean of the last {} steps ({:.4g}); try a lower --lr (now "
      "{:.3g}){}",
      step.step, step.loss, step.loss / mean, LastLosses::kLast, mean, step.lr, clips ? "" : ", or --clip-grad-norm 1");
}

// A ReLU that is 0 everywhere takes the gradient of each layer before it: of the weight and of the bias.
std::optional<std::string> hint_of_gradients(const std::vector<std::string>& zero, const NetworkFacts& network,
                                             double lr) {
  if (zero.empty()) return std::nullopt;
  const auto is_zero = [&](const std::string& name) { return std::ranges::count(zero, name) > 0; };
  std::vector<std::string> remedies;
  if (is_zero(network.first_weight) && !is_zero(network.first_shift)) {
    remedies = {"the first layer reads zeros only: look at the images with ddp_train show"};
  } else {
    if (!network.default_init) remedies.emplace_back("--init default gives other weights");
    if (lr > 0) remedies.push_back(fmt::format("a lower --lr (now {:.3g}) keeps ReLUs from dying", lr));
  }
  return fmt::format("the gradients of {} of {} parameters are zero, so they do not learn ({}){}{}", zero.size(),
                     network.parameters, first_names(zero), remedies.empty() ? "" : "; ",
                     fmt::join(remedies, ", and "));
}

std::optional<std::string> hint_of_data(const StepSpeed& speed, int64_t steps, const DataFacts& data) {
  constexpr double kShare = 0.1, kLeastMs = 500;
  const StepTimes& step = speed.critical();
  const double total = step.total();
  if (!(step.data > kShare * total) || !(total * static_cast<double>(steps) >= kLeastMs)) return std::nullopt;
  std::string what = "a larger --batch-size gives the loader more time";
  if (data.workers > 0)
    what = fmt::format("more --workers read {} ahead (now {})", data.tokens ? "tokens" : "images", data.workers);
  else if (data.threads == 0)
    what = "a larger --device-data-mb keeps the data on the GPU";
  else if (data.threads > 1)
    what = fmt::format("a lower --threads (now {}) leaves a core to the loader, {}", data.threads, what);
  return fmt::format("rank {} waits for data {:.0f} % of a step; {}", speed.slowest(), 100 * step.data / total, what);
}

std::optional<std::string> hint_of_cores(const std::vector<RankCores>& ranks) {
  std::map<std::pair<std::string, std::vector<int>>, int> sharing;  // ranks with the same cores
  for (const RankCores& rank : ranks) ++sharing[{rank.host, rank.cores}];
  for (const RankCores& rank : ranks) {
    const int count = sharing[{rank.host, rank.cores}];
    if (rank.cores.empty() || count <= rank.usable) continue;
    const bool limited = std::cmp_less(rank.usable, rank.cores.size());
    return fmt::format(
        "{} ranks share {} of {}, so they take turns; start fewer ranks (mpirun -np), or {}; --doctor shows the cores",
        count, cores_text(rank.cores, rank.usable), printable(rank.host),
        limited ? "raise the limit of the container" : "bind each to cores of its own (mpirun --bind-to core)");
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
  last_lr_ = r.lr;
  ++steps_;
  if (!r.skipped.empty()) return;  // its message says why it taught nothing
  if (loss_.add(r.loss, r.lr) && !gradients_said_)
    print(hint_of_loss(loss_.mean(), config_.classes, LossSign::kSteps, r.lr, config_.smoothing));
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
  if (!(last_loss_ > kLearnt)) return;
  const auto hint = hint_of_gradients(zero, config_.network, last_lr_);
  gradients_said_ = hint.has_value();
  print(hint);
}

void EarlySigns::speed(int64_t, int64_t, const StepSpeed& speed) {
  const auto hint = hint_of_data(speed, std::exchange(steps_, 0), config_.data);
  if (!hint || std::exchange(data_said_, true)) return;
  print(hint);
}

}  // namespace ddp
