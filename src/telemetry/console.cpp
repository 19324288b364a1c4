#include "telemetry/console.h"

#include "core/log.h"
#include "ddp/balance.h"
#include "telemetry/progress_bar.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ddp {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);

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

Console::Console(ConsoleConfig config) : config_(std::move(config)) {
  if (config_.bar) terminal_ = std::make_shared<const Terminal>();
}

Console::~Console() { Console::close(false); }

void Console::close(bool) {
  if (terminal_) draw_status(nullptr);
}

void Console::step(const StepResult& r) {
  if (!r.skipped.empty()) write_text(stdout, fmt::format("skipped: {}\n", r.skipped));
  ++window_.steps;
  window_.samples += r.samples;
  window_.tokens += r.tokens();
  window_.parts += r.times;

  if (config_.print_freq == 0) return;
  if (terminal_) {
    if (Clock::now() - drawn_ >= kRedraw) draw_bar(r);
    return;
  }
  const int64_t in_epoch = step_of_epoch(r.step);
  if (in_epoch % config_.print_freq == 0 || in_epoch == config_.steps_per_epoch) print_line(r);
}

void Console::print_line(const StepResult& last) {
  const auto steps = static_cast<double>(window_.steps);
  const auto per_second = [&](int64_t count) { return static_cast<double>(count) / window_.seconds(); };
  const std::string tokens =
      last.sequence_length > 0 ? fmt::format(" {:.0f} tokens/s", per_second(window_.tokens)) : "";
  write_text(stdout, fmt::format("epoch {}/{} step {}/{} loss {:.4f} {:.{}f} samples/s{}, ms: data {:.2f} compute "
                                 "{:.2f} exposed comm {:.2f}\n",
                                 last.epoch, config_.epochs, step_of_epoch(last.step), config_.steps_per_epoch,
                                 last.loss, per_second(window_.samples), last.sequence_length > 0 ? 1 : 0, tokens,
                                 window_.parts.data / steps, window_.parts.compute / steps,
                                 window_.parts.exposed_comm / steps));
  if (config_.printed) config_.printed();
  window_ = {};
}

// The first step takes longer than others: libraries make their plans.
void Console::draw_bar(const StepResult& last) {
  if (drawn_ != Clock::time_point{}) rate_.add(window_.steps, window_.samples, window_.seconds());
  const Progress progress{.epoch = last.epoch,
                          .epochs = config_.epochs,
                          .step = step_of_epoch(last.step),
                          .steps = config_.steps_per_epoch,
                          .loss = last.loss,
                          .samples_per_second = rate_.samples_per_second(),
                          .sequence_length = last.sequence_length,
                          .seconds_left = rate_.seconds_of(config_.total_steps - last.step),
                          .parts = window_.parts};
  draw_status([progress, terminal = terminal_, colour = config_.colour] {
    return progress_bar(progress, terminal->width(), colour);
  });
  if (config_.printed) config_.printed();
  drawn_ = Clock::now();
  window_ = {};
}

void Console::evaluation(int64_t epoch, int64_t, const Evaluation& e, double seconds) {
  const std::string excluded = e.excluded > 0 ? fmt::format(", {} excluded", e.excluded) : "";
  const std::string accuracy = e.average ? fmt::format(", EMA {:.4f}", e.average->accuracy) : "";
  const std::string loss = e.average ? fmt::format(", EMA {:.4f}", e.average->loss) : "";
  if (e.of_tokens()) {
    write_text(stdout,
               fmt::format("epoch {}/{} test loss {:.4f}{}, perplexity {:.4g} ({}/{} samples evaluated in {:.2f} "
                           "s{}), acc {:.4f}{}\n",
                           epoch, config_.epochs, e.loss, loss, e.perplexity(), e.samples, e.expected_samples,
                           seconds - e.statistics_seconds, recomputed(e), e.accuracy(), accuracy));
    return;
  }
  write_text(stdout,
             fmt::format("epoch {}/{} test acc {:.4f}{} ({}/{} samples evaluated in {:.2f} s{}{}), loss {:.4f}{}\n",
                         epoch, config_.epochs, e.accuracy(), accuracy, e.samples, e.expected_samples,
                         seconds - e.statistics_seconds, excluded, recomputed(e), e.loss, loss));
}

void Console::early_stop(int64_t epoch, int64_t, const EarlyStopState& state) {
  write_text(stdout,
             fmt::format("epoch {}/{} ends the run early: {} in a row without a {} than {:.4f} of epoch {}\n", epoch,
                         config_.epochs, state.bad == 1 ? "1 evaluation" : fmt::format("{} evaluations", state.bad),
                         state.best_loss ? "lower loss" : "better accuracy",
                         state.best_loss ? *state.best_loss : state.best, state.best_epoch));
}

void Console::speed(int64_t epoch, int64_t, const StepSpeed& speed) {
  if (config_.print_freq == 0) return;
  write_text(stdout, fmt::format("epoch {}/{} {}\n", epoch, config_.epochs, speed_line(speed)));
}

void Console::balanced(int64_t epoch, int64_t, const std::vector<int64_t>& shares, const std::vector<double>& speeds) {
  write_text(stdout, fmt::format("epoch {}/{} begins with shards by measured speed: {}\n", epoch, config_.epochs,
                                 describe_shares(shares, speeds)));
}

void Console::excluded(const std::string& part, const std::vector<BrokenPicture>& broken, int64_t known,
                       int64_t pictures) {
  constexpr size_t kShown = 20;
  std::string lines = lines_of(std::span(broken).first(std::min(broken.size(), kShown)));
  if (broken.size() > kShown)
    lines +=
        fmt::format("\n  and {} more: skipped-{}.txt in the run's folder names them", broken.size() - kShown, part);
  Log(0).warn("{} {} {} broken and {} excluded ({} of {} by now):{}", broken.size(), part,
              broken.size() == 1 ? "picture has" : "pictures have", broken.size() == 1 ? "is" : "are", known, pictures,
              lines);
}

void Console::exclusions_of_epoch(int64_t epoch, int64_t, int64_t samples, int64_t excluded) {
  write_text(stdout, fmt::format("epoch {}/{} saw each of {} samples once; {} excluded\n", epoch, config_.epochs,
                                 samples, excluded));
}

void Console::saved(const SaveOutcome& outcome) {
  if (!outcome.error.empty()) {
    Log(0).warn("no checkpoint of step {}: {}; training continues, and the previous checkpoint is kept", outcome.step,
                outcome.error);
    return;
  }
  write_text(stdout, fmt::format("saved {}\n", outcome.path.string()));
}

}  // namespace ddp
