#include "telemetry/console.h"

#include "core/error.h"
#include "core/log.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <string>

namespace ddp {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kRedraw = std::chrono::milliseconds(100);

size_t terminal_width() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

std::string speed_line(const StepSpeed& speed) {
  const StepTimes& times = speed.critical();
  std::string line =
      fmt::format("{:.2f} ms a step: data {:.2f} compute {:.2f}", times.total(), times.data, times.compute);
  if (speed.ranks.size() > 1)
    line += fmt::format(" exposed comm {:.2f} ({:.0f}% of {:.2f} hidden); rank {} slowest, {:.1f}% above the mean",
                        times.exposed_comm, 100 * speed.hidden(), speed.communication, speed.slowest(),
                        100 * speed.imbalance());
  if (speed.noise_scale) line += fmt::format("; noise scale {:.0f} samples", *speed.noise_scale);
  return line;
}

std::string recomputed(const Evaluation& e) {
  if (e.statistics_samples == 0) return "";
  return fmt::format(", after batch norms were recomputed over {} samples in {:.2f} s", e.statistics_samples,
                     e.statistics_seconds);
}

}  // namespace

void Console::step(const StepResult& r) {
  if (!r.skipped.empty()) {
    clear_progress();
    write_text(stdout, fmt::format("skipped: {}\n", r.skipped));
  }
  ++window_.steps;
  window_.samples += r.samples;
  window_.data_ms += r.data_ms;
  window_.compute_ms += r.compute_ms;
  window_.exposed_comm_ms += r.exposed_comm_ms;

  if (config_.print_freq == 0) return;
  const int64_t in_epoch = (r.step - 1) % config_.steps_per_epoch + 1;
  const bool due = config_.terminal ? Clock::now() - drawn_ >= kRedraw
                                    : in_epoch % config_.print_freq == 0 || in_epoch == config_.steps_per_epoch;
  if (due) print_progress(r);
}

void Console::print_progress(const StepResult& last) {
  const int64_t in_epoch = (last.step - 1) % config_.steps_per_epoch + 1;
  const auto steps = static_cast<double>(window_.steps);
  std::string line = fmt::format(
      "epoch {}/{} step {}/{} loss {:.4f} {:.0f} samples/s, ms: data {:.2f} compute {:.2f} exposed comm {:.2f}",
      last.epoch, config_.epochs, in_epoch, config_.steps_per_epoch, last.loss,
      static_cast<double>(window_.samples) / window_.watch.seconds(), window_.data_ms / steps,
      window_.compute_ms / steps, window_.exposed_comm_ms / steps);
  if (config_.terminal) {
    constexpr int64_t kBar = 20;
    const int64_t filled = in_epoch * kBar / config_.steps_per_epoch;
    line = fmt::format("[{}{}] {}", std::string(filled, '#'), std::string(kBar - filled, '.'), line);
    line = "\r\033[K" + line.substr(0, terminal_width() - 1);
  } else {
    line += '\n';
  }
  write_text(stdout, line);
  if (config_.printed) config_.printed();
  drawn_ = Clock::now();
  window_ = {};
}

void Console::clear_progress() {
  if (!config_.terminal || drawn_ == Clock::time_point{}) return;
  write_text(stdout, "\r\033[K");
}

void Console::evaluation(int64_t epoch, int64_t, const Evaluation& e, double seconds) {
  clear_progress();
  write_text(stdout, fmt::format("epoch {}/{} test acc {:.4f} ({}/{} samples evaluated in {:.2f} s{}), loss {:.4f}\n",
                                 epoch, config_.epochs, e.accuracy(), e.samples, e.expected_samples,
                                 seconds - e.statistics_seconds, recomputed(e), e.loss));
  window_ = {};
}

void Console::speed(int64_t epoch, int64_t, const StepSpeed& speed) {
  window_ = {};
  if (config_.print_freq == 0) return;
  clear_progress();
  write_text(stdout, fmt::format("epoch {}/{} {}\n", epoch, config_.epochs, speed_line(speed)));
}

void Console::saved(const SaveOutcome& outcome) {
  clear_progress();
  if (!outcome.error.empty()) {
    Log(0).warn("no checkpoint of step {}: {}; training continues, and the previous checkpoint is kept", outcome.step,
                outcome.error);
    return;
  }
  write_text(stdout, fmt::format("saved {}\n", outcome.path.string()));
}

}  // namespace ddp
