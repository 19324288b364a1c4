#include "train/reporter.h"

#include "core/durable_file.h"
#include "core/error.h"
#include "core/json_reader.h"
#include "core/log.h"
#include "core/read_file.h"

#include <nlohmann/json.hpp>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

namespace ddp {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kRedraw = std::chrono::milliseconds(100);

size_t terminal_width() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

// JSON has no NaN: the loss of a skipped step may be null.
nlohmann::ordered_json step_event(const StepResult& r) {
  nlohmann::ordered_json event{{"event", "step"},
                               {"step", r.step},
                               {"epoch", r.epoch},
                               {"loss", r.loss},
                               {"lr", r.lr},
                               {"samples", r.samples},
                               {"data_ms", r.data_ms},
                               {"compute_ms", r.compute_ms},
                               {"exposed_comm_ms", r.exposed_comm_ms}};
  if (!r.skipped.empty()) event["skipped"] = r.skipped;
  return event;
}

nlohmann::ordered_json speed_event(int64_t epoch, int64_t step, const StepSpeed& speed) {
  nlohmann::ordered_json event{{"event", "speed"}, {"epoch", epoch}, {"step", step}};
  for (const StepTimes& times : speed.ranks)
    event["ranks"].push_back(
        {{"data_ms", times.data}, {"compute_ms", times.compute}, {"exposed_comm_ms", times.exposed_comm}});
  event["communication_ms"] = speed.communication;
  event["noise_scale"] = nullptr;
  if (speed.noise_scale) event["noise_scale"] = *speed.noise_scale;
  return event;
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

// Whether a resumed run keeps this line of the existing file; see ReporterConfig::done.
bool is_kept(const std::string& line, const ReporterConfig& config) {
  nlohmann::json event;
  try {
    event = read_json(line, "the line");
  } catch (const Error&) {
    return false;
  }
  if (!event.is_object()) return false;
  const auto step = event.find("step");
  if (step == event.end()) return true;
  if (!step->is_number_integer() || *step > config.done) return false;
  return !(config.evaluation_due && *step == config.done && event.find("event") != event.end() &&
           event["event"] == "eval");
}

std::string kept_events(const ReporterConfig& config) {
  std::string kept;
  std::error_code error;
  if (config.done == 0) return kept;
  const bool exists = std::filesystem::exists(config.metrics, error);
  require(!error, Exit::output, "cannot look at {}: {}", config.metrics.string(), error.message());
  if (!exists) return kept;
  FileStream file(config.metrics);
  for (std::string line; std::getline(file, line);)
    if (is_kept(line, config)) kept += line + "\n";
  return kept;
}

}  // namespace

Reporter::Reporter(const ReporterConfig& config) : config_(config) {
  if (!config_.enabled) return;
  replace_file(config_.metrics, kept_events(config_));
  file_ = open_for_appending(config_.metrics);
}

Reporter::~Reporter() {
  if (file_) std::fclose(file_);  // the run failed, so that close() was not called
  if (config_.enabled) clear_progress();
}

void Reporter::give_up_metrics() {
  failure_ = fmt::format("cannot write {}: {}", config_.metrics.string(), std::strerror(errno));
  std::fclose(std::exchange(file_, nullptr));
  Log(0).warn("{}; training continues without it", failure_);
}

void Reporter::flush() {
  if (file_ && std::fflush(file_) != 0) give_up_metrics();
}

void Reporter::close() {
  flush();
  if (file_) std::fclose(std::exchange(file_, nullptr));
  require(failure_.empty(), Exit::output, "{}; make room on the disk: all later events are lost", failure_);
}

void Reporter::write_line(const std::string& json) {
  if (!file_) return;
  const std::string line = json + "\n";
  if (std::fwrite(line.data(), 1, line.size(), file_) != line.size() || std::ferror(file_)) give_up_metrics();
}

void Reporter::step(const StepResult& r) {
  if (!config_.enabled) return;
  write_line(step_event(r).dump());
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

void Reporter::print_progress(const StepResult& last) {
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
  flush();
  drawn_ = Clock::now();
  window_ = {};
}

void Reporter::clear_progress() {
  if (!config_.terminal || drawn_ == Clock::time_point{}) return;
  write_text(stdout, "\r\033[K");
}

void Reporter::evaluation(int64_t epoch, int64_t step, const Evaluation& e, double seconds) {
  if (!config_.enabled) return;
  write_line(nlohmann::ordered_json{{"event", "eval"},
                                    {"epoch", epoch},
                                    {"step", step},
                                    {"accuracy", e.accuracy()},
                                    {"correct", e.correct},
                                    {"samples", e.samples},
                                    {"loss", e.loss},
                                    {"seconds", seconds - e.statistics_seconds},
                                    {"statistics_seconds", e.statistics_seconds}}
                 .dump());
  flush();
  clear_progress();
  write_text(stdout, fmt::format("epoch {}/{} test acc {:.4f} ({}/{} samples evaluated in {:.2f} s{}), loss {:.4f}\n",
                                 epoch, config_.epochs, e.accuracy(), e.samples, e.expected_samples,
                                 seconds - e.statistics_seconds, recomputed(e), e.loss));
  window_ = {};
}

void Reporter::speed(int64_t epoch, int64_t step, const StepSpeed& speed) {
  if (!config_.enabled) return;
  write_line(speed_event(epoch, step, speed).dump());
  flush();
  window_ = {};
  if (config_.print_freq == 0) return;
  clear_progress();
  write_text(stdout, fmt::format("epoch {}/{} {}\n", epoch, config_.epochs, speed_line(speed)));
}

void Reporter::saved(const SaveOutcome& outcome) {
  if (!config_.enabled) return;
  clear_progress();
  if (!outcome.error.empty()) {
    Log(0).warn("no checkpoint of step {}: {}; training continues, and the previous checkpoint is kept", outcome.step,
                outcome.error);
    return;
  }
  write_line(nlohmann::ordered_json{
      {"event", "save"}, {"step", outcome.step}, {"path", outcome.path.string()}, {"seconds", outcome.seconds}}
                 .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));  // the path may be no UTF-8
  write_text(stdout, fmt::format("saved {}\n", outcome.path.string()));
}

}  // namespace ddp
