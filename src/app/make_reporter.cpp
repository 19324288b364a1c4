#include "app/make_reporter.h"

#include "telemetry/console.h"
#include "telemetry/metrics_file.h"
#include "telemetry/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <system_error>

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

}  // namespace

std::unique_ptr<Reporter> make_reporter(const OutputConfig& output, const TrainConfig& config,
                                        const DistributedSampler& sampler, int rank, const fs::path& folder,
                                        const std::string& run_event) {
  using Show = OutputConfig::ProgressDisplay;
  const bool bar = output.progress == Show::bar || (output.progress == Show::automatic && output_is_terminal());
  auto reporter = std::make_unique<Reporter>();
  if (rank != 0) return reporter;
  const bool ended = config.start.step >= total_steps(config, sampler);
  reporter->add(std::make_unique<MetricsFile>(MetricsFileConfig{.path = folder / "metrics.jsonl",
                                                                .done = config.start.step,
                                                                .evaluation_due = config.start.evaluation_due || ended,
                                                                .run_event = run_event}));
  if (output.tensorboard)
    reporter->add(
        std::make_unique<TensorBoard>(TensorBoardConfig{.folder = folder / "tensorboard",
                                                        .done = config.start.step,
                                                        .evaluation_due = config.start.evaluation_due || ended}));
  reporter->add(std::make_unique<Console>(ConsoleConfig{.terminal = bar,
                                                        .print_freq = output.print_freq,
                                                        .epochs = config.epochs,
                                                        .steps_per_epoch = sampler.steps_per_epoch(),
                                                        .printed = [&all = *reporter] { all.flush(); }}));
  return reporter;
}

}  // namespace ddp
