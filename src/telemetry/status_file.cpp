#include "telemetry/status_file.h"

#include "core/durable_file.h"
#include "core/error.h"
#include "core/log.h"
#include "core/stopwatch.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

namespace ddp {
namespace {

constexpr auto kStatusInterval = std::chrono::seconds(1);

StepTimes difference(const StepTimes& a, const StepTimes& b) {
  return {.data = a.data - b.data, .compute = a.compute - b.compute, .exposed_comm = a.exposed_comm - b.exposed_comm};
}

}  // namespace

StatusFile::StatusFile(StatusFileConfig config) : config_(std::move(config)) {
  mine_.step = config_.done;
  mine_.epoch = (std::max<int64_t>(config_.done, 1) - 1) / config_.steps_per_epoch + 1;
  shared_ = mine_;
  write(RunStatus::State::running);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& e) {
    Log(0).warn("no thread for {}: {}; ddp_train watch shows the start only", (config_.folder / "status.json").string(),
                e.what());
  }
}

StatusFile::~StatusFile() { end(RunStatus::State::failed); }

// The writer never waits for this lock inside the kernel, so that to release it is no system call.
void StatusFile::share() {
  const std::unique_lock lock(shared_mutex_, std::try_to_lock);
  if (lock) shared_ = mine_;  // else the next step shares
}

StatusFile::Counters StatusFile::latest() {
  std::unique_lock lock(shared_mutex_, std::defer_lock);
  while (!lock.try_lock()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return shared_;
}

void StatusFile::step(const StepResult& r) {
  mine_.epoch = r.epoch;
  mine_.step = r.step;
  mine_.loss = r.loss;
  ++mine_.steps;
  mine_.samples += r.samples;
  mine_.sequence_length = r.sequence_length;
  mine_.parts += r.times;
  share();
}

void StatusFile::evaluation(int64_t, int64_t, const Evaluation& evaluation, double seconds) {
  mine_.accuracy = evaluation.accuracy();
  if (evaluation.of_tokens()) mine_.test_loss = evaluation.loss;
  mine_.evaluating_seconds += seconds;
  share();
}

void StatusFile::close(bool stopped) { end(stopped ? RunStatus::State::stopped : RunStatus::State::done); }

void StatusFile::run() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kStatusInterval, [this] { return stop_; })) {
    lock.unlock();
    write(RunStatus::State::running);
    lock.lock();
  }
}

void StatusFile::end(RunStatus::State state) {
  {
    const std::lock_guard lock(mutex_);
    if (stop_) return;
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  shared_ = mine_;
  write(state);
}

// The time before the first step, and that of evaluations, is not of the training.
RunStatus StatusFile::status(const Counters& now) {
  const int64_t now_ns = steady_ns();
  if (now.steps > before_.steps) {
    const double seconds =
        1e-9 * static_cast<double>(now_ns - before_ns_) - (now.evaluating_seconds - before_.evaluating_seconds);
    if (before_ns_ != 0 && seconds > 0) rate_.add(now.steps - before_.steps, now.samples - before_.samples, seconds);
    parts_ = difference(now.parts, before_.parts);
    before_ = now;
    before_ns_ = now_ns;
  }
  std::vector<RankLine> ranks;
  for (const RankStatus& rank : config_.ranks()) ranks.push_back(line_of(rank));
  return {.host = config_.host,
          .pid = ::getpid(),
          .written = wall_seconds(),
          .progress = {.epoch = now.epoch,
                       .epochs = config_.epochs,
                       .step = now.step == 0 ? 0 : (now.step - 1) % config_.steps_per_epoch + 1,
                       .steps = config_.steps_per_epoch,
                       .loss = now.loss,
                       .samples_per_second = rate_.samples_per_second(),
                       .sequence_length = now.sequence_length,
                       .seconds_left = rate_.seconds_of(config_.total_steps - now.step),
                       .parts = parts_},
          .step = now.step,
          .steps = config_.total_steps,
          .accuracy = now.accuracy,
          .test_loss = now.test_loss,
          .ranks = std::move(ranks)};
}

void StatusFile::write(RunStatus::State state) {
  if (given_up_) return;
  try {
    config_.require_in_place();
  } catch (const Error&) {
    given_up_ = true;  // the run says so where it needs the folder
    return;
  }
  try {
    RunStatus now = status(latest());
    now.state = state;
    replace_file(config_.folder / "status.json", status_json(now), false);
  } catch (const std::exception& e) {
    if (!std::exchange(warned_, true))
      Log(0).warn("{}; training continues, ddp_train watch shows old figures", e.what());
  }
}

}  // namespace ddp
