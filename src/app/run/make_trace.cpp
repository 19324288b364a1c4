#include "app/run/make_trace.h"

#include "core/durable_file.h"
#include "core/error.h"
#include "core/printable.h"
#include "health/run_on_all_ranks.h"

#include <filesystem>
#include <string>
#include <utility>

namespace ddp {

void require_possible_trace(const Job& job) {
  const std::string& file = job.options.output.trace;
  run_on_all_ranks(job.session, [&] {
    if (job.session.rank() != 0 || file.empty()) return;
    const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
    require(std::filesystem::is_directory(folder), Exit::output, "--trace {}: there is no folder {}; create it",
            printable(file), printable(folder.native()));
    require_replaceable(file, "--trace");
  });
}

std::unique_ptr<Trace> make_trace(const Job& job, int64_t steps_done, std::span<const std::string> hosts) {
  const OutputConfig& output = job.options.output;
  if (output.trace.empty()) return nullptr;
  const TraceSteps& steps = output.trace_steps;
  if (steps_done >= steps.last) {
    job.log.info("no trace: steps {} to {} are done", steps.first, steps.last);
    return nullptr;
  }
  auto file = run_on_all_ranks(job.session, [&] {
    if (job.session.rank() != 0) return std::unique_ptr<TraceFile>();
    return std::make_unique<TraceFile>(output.trace, hosts);
  });
  const auto gather = [&session = job.session](const std::string& mine) { return session.gather(mine); };
  return std::make_unique<Trace>(TraceConfig{.steps = steps}, *job.world, gather, std::move(file));
}

void report_trace(const Trace* trace, const Job& job) {
  if (!trace || job.session.rank() != 0) return;
  const OutputConfig& output = job.options.output;
  const std::string file = printable(output.trace);
  if (trace->recorded() == 0) {
    job.log.warn("{} is empty: the run ended before step {}; choose earlier --trace-steps", file,
                 output.trace_steps.first);
    return;
  }
  const TraceSteps steps = trace->steps();
  job.log.info("trace of steps {} to {}: {}; open it in Perfetto (ui.perfetto.dev) or in chrome://tracing", steps.first,
               steps.last, file);
  if (trace->dropped() > 0) job.log.warn("{} spans are not in the trace; choose fewer --trace-steps", trace->dropped());
}

}  // namespace ddp
