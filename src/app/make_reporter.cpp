#include "app/make_reporter.h"

#include "core/error.h"
#include "core/log.h"
#include "telemetry/console.h"
#include "telemetry/metrics_file.h"
#include "telemetry/metrics_server.h"
#include "telemetry/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

namespace ddp {
namespace {

namespace fs = std::filesystem;

// Under mpirun each rank's stdout is a pseudo-terminal; there the stdout of mpirun, the parent process, decides.
bool output_is_terminal() {
  if (!isatty(STDOUT_FILENO)) return false;
  if (!std::getenv("OMPI_COMM_WORLD_SIZE")) return true;
  std::error_code error;
  const auto target = fs::read_symlink(fmt::format("/proc/{}/fd/1", getppid()), error);
  return !error && (target.string().rfind("/dev/pts/", 0) == 0 || target.string().rfind("/dev/tty", 0) == 0);
}

// Null where it cannot listen: training goes on without it.
std::unique_ptr<MetricsServer> make_metrics_server(const OutputConfig& output, const TrainConfig& config,
                                                   int64_t planned_steps, const Watchdog& watchdog) {
  try {
    auto server = std::make_unique<MetricsServer>(
        MetricsServerConfig{.address = output.metrics_address,
                            .port = output.metrics_port,
                            .start = {.step = config.start.step,
                                      .planned_steps = planned_steps,
                                      .checkpoint_step = config.start_is_saved ? config.start.step : -1},
                            .ranks = [&watchdog] { return watchdog.ranks(); }});
    Log(0).info("metrics: {}/metrics", server->url());
    return server;
  } catch (const Error& e) {
    Log(0).warn("no metrics: {}; training goes on", e.what());
    return nullptr;
  }
}

}  // namespace

std::unique_ptr<Reporter> make_reporter(const OutputConfig& output, const TrainConfig& config,
                                        const DistributedSampler& sampler, const Watchdog& watchdog, int rank,
                                        const fs::path& folder, const std::string& run_event) {
  using Show = OutputConfig::ProgressDisplay;
  const bool bar = output.progress == Show::bar || (output.progress == Show::automatic && output_is_terminal());
  auto reporter = std::make_unique<Reporter>();
  if (rank != 0) return reporter;
  const int64_t total = total_steps(config, sampler);
  const bool ended = config.start.step >= total;
  reporter->add(std::make_unique<MetricsFile>(MetricsFileConfig{.path = folder / "metrics.jsonl",
                                                                .done = config.start.step,
                                                                .evaluation_due = config.start.evaluation_due || ended,
                                                                .run_event = run_event}));
  if (output.tensorboard)
    reporter->add(
        std::make_unique<TensorBoard>(TensorBoardConfig{.folder = folder / "tensorboard",
                                                        .done = config.start.step,
                                                        .evaluation_due = config.start.evaluation_due || ended}));
  if (output.metrics_port > 0)
    if (auto server = make_metrics_server(output, config, total, watchdog)) reporter->add(std::move(server));
  reporter->add(std::make_unique<Console>(ConsoleConfig{.terminal = bar,
                                                        .print_freq = output.print_freq,
                                                        .epochs = config.epochs,
                                                        .steps_per_epoch = sampler.steps_per_epoch(),
                                                        .printed = [&all = *reporter] { all.flush(); }}));
  return reporter;
}

}  // namespace ddp
