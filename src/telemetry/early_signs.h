// Early signs that a run will not learn, or wastes its time: one hint each, once, with the option that mends it.
#pragma once

#include "train/observers/run_observer.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

// The cores that a rank may use.
struct RankCores {
  std::string host;
  std::vector<int> cores;  // ascending
  int usable = 0;          // how many of them it may use at a time
};

// Pure functions: a hint as a sentence; none where there is no sign.

// `loss`: the mean of recent steps, after `steps` of them. `smoothing`: --label-smoothing, below which no loss falls to
// 0.
std::optional<std::string> hint_of_loss(double loss, int64_t classes, int64_t steps, double lr, double smoothing);
// Judges the loss of a step. `mean`: of the last LastLosses::kLast steps before. `clips`: the gradients are clipped.
std::optional<std::string> hint_of_jump(const StepResult& step, double mean, int64_t classes, bool clips);
// `zero`: the parameters without a gradient.
struct NetworkFacts {
  int64_t parameters = 0;  // tensors
  // The first weight, and the first bias or shift of a norm: if the first weight alone has no gradient, its input is 0.
  std::string first_weight = {}, first_shift = {};
  bool default_init = true;  // false: this process has set the weights by another --init
};
std::optional<std::string> hint_of_gradients(const std::vector<std::string>& zero, const NetworkFacts& network,
                                             double lr);
// None before half a second of steps.
struct DataFacts {
  int workers = 0;  // threads of a rank that decode or augment; 0: the data are in memory
  int threads = 0;  // computing threads of a rank; 0: it computes on a GPU
  bool tokens = false;
};
std::optional<std::string> hint_of_data(const StepSpeed& speed, int64_t steps, const DataFacts& data);
// `ranks`: in the order of their numbers.
std::optional<std::string> hint_of_cores(const std::vector<RankCores>& ranks);

// Judges the loss over steps since the learning rate last rose: a network may need hundreds of them to leave the loss
// of guessing (the LeNet of Dive into Deep Learning needs 280 to 380), and a warm-up teaches little. Allocates nothing
// and reads no clock.
class LossSign {
 public:
  static constexpr int64_t kSteps = 1000, kLast = 50;

  // Whether this is the step at which the loss is judged.
  bool add(double loss, double lr);
  double mean() const;  // over the last kLast steps, without NaN and infinity; NaN if there are no others

 private:
  std::array<double, kLast> last_{};
  int64_t steps_ = 0;
  double lr_ = 0;
};

// The losses of the last steps. NaN and infinity do not count. Allocates nothing.
class LastLosses {
 public:
  static constexpr int64_t kLast = 50;

  void add(double loss);
  std::optional<double> mean() const;  // none before kLast losses

 private:
  std::array<double, kLast> last_{};
  int64_t count_ = 0;
};

struct EarlySignsConfig {
  int64_t classes = 0;
  double smoothing = 0;  // see hint_of_loss()
  bool clips = false;    // see hint_of_jump()
  NetworkFacts network = {};
  DataFacts data = {};
  std::vector<RankCores> cores = {};  // empty: not judged
};

// Prints the hints on stdout, on rank 0.
class EarlySigns final : public RunObserver {
 public:
  explicit EarlySigns(EarlySignsConfig config);  // prints the hint of the cores

  void step(const StepResult& result) override;
  void evaluation(int64_t, int64_t, const Evaluation&, double) override {}
  void gradients(const std::vector<std::string>& zero) override;
  void speed(int64_t epoch, int64_t step, const StepSpeed& speed) override;
  void saved(const SaveOutcome&) override {}

 private:
  const EarlySignsConfig config_;
  LossSign loss_;
  LastLosses last_losses_;
  double last_loss_ = 0, last_lr_ = 0;
  int64_t steps_ = 0;  // since the last speed
  bool data_said_ = false, jump_said_ = false, gradients_said_ = false;
};

}  // namespace ddp
