#include "telemetry/metrics_server.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <utility>

namespace ddp {

MetricsServer::MetricsServer(MetricsServerConfig config)
    : config_(std::move(config)),
      newest_(config_.start),
      server_(config_.address, config_.port,
              {{"/metrics", [this] { return metrics(); }}, {"/healthz", [this] { return health(); }}}) {}

void MetricsServer::step(const StepResult& r) {
  const std::lock_guard lock(mutex_);
  newest_.step = r.step;
  newest_.epoch = r.epoch;
  ++newest_.steps;
  newest_.samples += r.samples;
  if (r.sequence_length > 0) newest_.tokens = newest_.tokens.value_or(0) + r.tokens();
  newest_.skipped += r.skipped.empty() ? 0 : 1;
  newest_.data_seconds += 1e-3 * r.times.data;
  newest_.compute_seconds += 1e-3 * r.times.compute;
  newest_.exposed_comm_seconds += 1e-3 * r.times.exposed_comm;
  newest_.loss = r.loss;
  newest_.lr = r.lr;
  if (!(r.times.total() > 0)) return;
  newest_.samples_per_second = r.samples_per_second();
  if (r.sequence_length > 0) newest_.tokens_per_second = r.tokens_per_second();
}

void MetricsServer::evaluation(int64_t, int64_t, const Evaluation& e, double) {
  const std::lock_guard lock(mutex_);
  newest_.accuracy = e.accuracy();
  newest_.test_loss = e.loss;
  if (e.of_tokens()) newest_.perplexity = e.perplexity();
}

void MetricsServer::speed(int64_t, int64_t, const StepSpeed& speed) {
  const std::lock_guard lock(mutex_);
  if (speed.noise_scale) newest_.noise_scale = speed.noise_scale;
}

void MetricsServer::saved(const SaveOutcome& outcome) {
  const std::lock_guard lock(mutex_);
  if (outcome.error.empty())
    newest_.checkpoint_step = outcome.step;
  else
    ++newest_.failed_saves;
}

std::string MetricsServer::url() const {
  const bool v6 = config_.address.find(':') != std::string::npos;
  return fmt::format("http://{}:{}", v6 ? fmt::format("[{}]", config_.address) : config_.address, server_.port());
}

HttpAnswer MetricsServer::metrics() const {
  const auto ranks = config_.ranks();
  const RunMetrics newest = [this] {
    const std::lock_guard lock(mutex_);
    return newest_;
  }();
  return {.type = "text/plain; version=0.0.4; charset=utf-8", .content = prometheus_text(newest, ranks)};
}

HttpAnswer MetricsServer::health() const {
  const auto ranks = config_.ranks();
  const bool healthy = all_run(ranks);
  nlohmann::ordered_json report{{"healthy", healthy}, {"ranks", nlohmann::ordered_json::array()}};
  for (const RankStatus& rank : ranks) {
    report["ranks"].push_back({{"rank", rank.rank},
                               {"host", rank.host},
                               {"state", key_of(rank.state)},
                               {"phase", key_of(rank.phase)},
                               {"step", rank.step},
                               {"phase_seconds", rank.phase_seconds},
                               {"silent_seconds", nullptr}});
    if (rank.silent_seconds) report["ranks"].back()["silent_seconds"] = *rank.silent_seconds;
  }
  return {.status = healthy ? 200 : 503,
          .type = "application/json",
          .content = report.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"};
}

}  // namespace ddp
