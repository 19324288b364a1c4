#include "telemetry/prometheus.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

namespace ddp {
namespace {

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

std::string label_text(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    if (c == '\n')
      text += "\\n";
    else
      text += c;
  }
  return text;
}

class Exposition {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
  }
  void sample(double value, std::string_view labels = "") {
    text_ += labels.empty() ? fmt::format("{} {}\n", name_, number_text(value))
                            : fmt::format("{}{{{}}} {}\n", name_, labels, number_text(value));
  }
  void counter(std::string_view name, std::string_view help, int64_t value) {
    family(name, "counter", help);
    sample(static_cast<double>(value));
  }
  void gauge(std::string_view name, std::string_view help, std::optional<double> value) {
    if (!value) return;
    family(name, "gauge", help);
    sample(*value);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string name_, text_;
};

void add_run(Exposition& text, const RunMetrics& run) {
  text.gauge("ddp_train_step", "Optimizer steps done in the whole run.", static_cast<double>(run.step));
  text.gauge("ddp_train_planned_steps", "Optimizer steps of the whole run.", static_cast<double>(run.planned_steps));
  if (run.epoch > 0) text.gauge("ddp_train_epoch", "Epoch of the last step, from 1.", static_cast<double>(run.epoch));
  text.counter("ddp_train_steps_total", "Optimizer steps since this process started.", run.steps);
  text.counter("ddp_train_skipped_steps_total", "Those that were skipped because of NaN or infinity.", run.skipped);
  text.counter("ddp_train_samples_total", "Training samples of these steps, over all ranks.", run.samples);
  if (run.tokens)
    text.counter("ddp_train_tokens_total", "Training tokens of these steps, over all ranks.", *run.tokens);
  text.gauge("ddp_train_loss", "Mean training loss of the last step.", run.loss);
  text.gauge("ddp_train_learning_rate", "Learning rate of the last step.", run.lr);
  text.gauge("ddp_train_samples_per_second", "Training samples per second of the last step, over all ranks.",
             run.samples_per_second);
  text.gauge("ddp_train_tokens_per_second", "Training tokens per second of the last step, over all ranks.",
             run.tokens_per_second);
  text.family("ddp_train_step_seconds_total", "counter",
              "Time of rank 0 in these steps: waiting for data, computing, waiting for communication.");
  text.sample(run.data_seconds, "part=\"data\"");
  text.sample(run.compute_seconds, "part=\"compute\"");
  text.sample(run.exposed_comm_seconds, "part=\"exposed_communication\"");
  text.gauge("ddp_train_test_accuracy",
             run.perplexity ? "Share of the test tokens that the last evaluation found right."
                            : "Share of the test samples that the last evaluation found right.",
             run.accuracy);
  text.gauge("ddp_train_test_loss", "Mean loss of the last evaluation.", run.test_loss);
  text.gauge("ddp_train_test_perplexity", "Perplexity of the last evaluation.", run.perplexity);
  text.gauge("ddp_train_noise_scale_samples", "Gradient noise scale.", run.noise_scale);
  if (run.checkpoint_step >= 0)
    text.gauge("ddp_train_checkpoint_step", "Step of the newest checkpoint.", static_cast<double>(run.checkpoint_step));
  text.counter("ddp_train_failed_saves_total", "Checkpoints that could not be written.", run.failed_saves);
}

void add_ranks(Exposition& text, std::span<const RankStatus> ranks) {
  const auto labels = [](const RankStatus& rank) {
    return fmt::format("rank=\"{}\",host=\"{}\"", rank.rank, label_text(rank.host));
  };
  text.gauge("ddp_train_healthy", "1: the watchdog sees all ranks alive and within their limits.", all_run(ranks));
  text.family("ddp_train_rank_state", "gauge", "1 for the state that the watchdog sees each rank in.");
  for (const RankStatus& rank : ranks) text.sample(1, labels(rank) + fmt::format(",state=\"{}\"", key_of(rank.state)));
  text.family("ddp_train_rank_phase", "gauge", "1 for the phase that each rank is in.");
  for (const RankStatus& rank : ranks) text.sample(1, labels(rank) + fmt::format(",phase=\"{}\"", key_of(rank.phase)));
  text.family("ddp_train_rank_phase_seconds", "gauge", "Time since the phase of each rank began.");
  for (const RankStatus& rank : ranks) text.sample(rank.phase_seconds, labels(rank));
  text.family("ddp_train_rank_step", "gauge", "Step that each rank works at.");
  for (const RankStatus& rank : ranks) text.sample(static_cast<double>(rank.step), labels(rank));
  text.family("ddp_train_rank_heartbeat_age_seconds", "gauge", "Time since the last sign of life of each rank.");
  for (const RankStatus& rank : ranks)
    if (rank.silent_seconds) text.sample(*rank.silent_seconds, labels(rank));
}

}  // namespace

std::string prometheus_text(const RunMetrics& run, std::span<const RankStatus> ranks) {
  Exposition text;
  add_run(text, run);
  add_ranks(text, ranks);
  return text.take();
}

}  // namespace ddp
