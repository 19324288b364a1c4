// Shows a run over HTTP: /metrics for Prometheus, and /healthz, the watchdog's view of all ranks, with the status 200
// while all ranks run, else 503. A step only stores its values.
#pragma once

#include "telemetry/http_server.h"
#include "telemetry/prometheus.h"
#include "train/observers/run_observer.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace ddp {

struct MetricsServerConfig {
  std::string address;                             // numeric
  uint16_t port = 0;                               // 0: a free one
  RunMetrics start;                                // values at the start of this process
  std::function<std::vector<RankStatus>()> ranks;  // called in the server's thread
};

class MetricsServer final : public RunObserver {
 public:
  // Throws Error(Exit::output) where it cannot listen.
  explicit MetricsServer(MetricsServerConfig config);

  void step(const StepResult& result) override;
  void evaluation(int64_t epoch, int64_t step, const Evaluation& evaluation, double seconds) override;
  void speed(int64_t epoch, int64_t step, const StepSpeed& speed) override;
  void saved(const SaveOutcome& outcome) override;

  std::string url() const;  // such as "http://127.0.0.1:9400"

 private:
  HttpAnswer metrics() const;
  HttpAnswer health() const;

  const MetricsServerConfig config_;
  mutable std::mutex mutex_;
  RunMetrics newest_;  // guarded by the mutex
  HttpServer server_;  // the last member: its thread reads the others
};

}  // namespace ddp
