#include "app/run/make_reporter.h"

#include "app/run/make_early_signs.h"
#include "app/run/run_event.h"
#include "app/run/skipped_files.h"
#include "core/error.h"
#include "core/log.h"
#include "health/run_on_all_ranks.h"
#include "telemetry/console.h"
#include "telemetry/metrics_file.h"
#include "telemetry/metrics_server.h"
#include "telemetry/status_file.h"
#include "telemetry/tensorboard.h"
#include "telemetry/terminal.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

namespace ddp {
namespace {

namespace fs = std::filesystem;

bool draws_bar(OutputConfig::ProgressDisplay progress) {
  using Show = OutputConfig::ProgressDisplay;
  if (progress == Show::lines || !can_draw(std::getenv("TERM"))) return false;
  const Destination destination = destination_of(STDOUT_FILENO);
  return destination == Destination::terminal || (progress == Show::bar && destination == Destination::unknown);
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

// `job` and `start` outlive the file.
std::unique_ptr<StatusFile> make_status_file(const Job& job, const RestoredRun& start) {
  const DistributedSampler& sampler = job.samplers.train;
  return std::make_unique<StatusFile>(
      StatusFileConfig{.folder = start.folder.path(),
                       .host = job.session.host(),
                       .require_in_place = [&start] { start.folder.require_in_place(); },
                       .ranks = [&job] { return job.watchdog->ranks(); },
                       .epochs = start.config.epochs,
                       .steps_per_epoch = sampler.steps_per_epoch(),
                       .total_steps = total_steps(start.config, sampler),
                       .done = start.config.start.step});
}

// On rank 0.
void add_observers(Reporter& reporter, const Job& job, const PlannedRun& run, const RestoredRun& start,
                   std::span<const std::string> hosts, bool bar) {
  const OutputConfig& output = job.options.output;
  const TrainConfig& config = start.config;
  const DistributedSampler& sampler = job.samplers.train;
  const fs::path& folder = start.folder.path();
  const int64_t total = total_steps(config, sampler);
  const bool evaluation_due = config.start.evaluation_due || has_ended(config, total);
  reporter.add(std::make_unique<MetricsFile>(MetricsFileConfig{.path = folder / "metrics.jsonl",
                                                               .done = config.start.step,
                                                               .evaluation_due = evaluation_due,
                                                               .run_event = run_event(job, run, start, hosts)}));
  if (output.tensorboard)
    reporter.add(std::make_unique<TensorBoard>(TensorBoardConfig{
        .folder = folder / "tensorboard", .done = config.start.step, .evaluation_due = evaluation_due}));
  if (output.metrics_port > 0)
    if (auto server = make_metrics_server(output, config, total, *job.watchdog)) reporter.add(std::move(server));
  reporter.add(make_status_file(job, start));
  if (job.data.excludes)
    reporter.add(std::make_unique<SkippedFiles>(
        folder, [&start] { start.folder.require_in_place(); }, job.data.listings));
  reporter.add(
      std::make_unique<Console>(ConsoleConfig{.bar = bar,
                                              .colour = has_colour(std::getenv("TERM"), std::getenv("NO_COLOR")),
                                              .print_freq = output.print_freq,
                                              .epochs = config.epochs,
                                              .steps_per_epoch = sampler.steps_per_epoch(),
                                              .total_steps = total,
                                              .printed = [&reporter] { reporter.flush(); }}));
}

}  // namespace

std::unique_ptr<Reporter> make_reporter(const Job& job, const PlannedRun& run, const RestoredRun& start,
                                        std::span<const std::string> hosts) {
  const bool bar = draws_bar(job.options.output.progress);
  if (bar && destination_of(STDERR_FILENO) == Destination::terminal) share_terminal_of_errors();
  auto reporter = std::make_unique<Reporter>();
  run_on_all_ranks(job.session, [&] {
    if (job.session.rank() == 0) add_observers(*reporter, job, run, start, hosts, bar);
  });
  if (auto signs = make_early_signs(job, run, hosts)) reporter->add(std::move(signs));
  return reporter;
}

}  // namespace ddp
