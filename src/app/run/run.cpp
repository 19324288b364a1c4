#include "app/run/run.h"

#include "app/commands/doctor/doctor.h"
#include "app/commands/lr_find/lr_find.h"
#include "app/commands/show/show.h"
#include "app/inputs/model_source.h"
#include "app/options/options.h"
#include "app/run/make_trace.h"
#include "app/run/open_job.h"
#include "app/run/plan_run.h"
#include "app/run/restore_run.h"
#include "app/run/resume_point.h"
#include "app/run/run_groups.h"
#include "app/run/train_run.h"
#include "core/log.h"
#include "core/stopwatch.h"
#include "health/abort.h"
#include "health/flight_recorder.h"
#include "health/run_on_all_ranks.h"
#include "train/observers/layer_times.h"
#include "train/observers/layer_times_text.h"
#include "train/observers/machine_rates.h"
#include "train/observers/plan_report.h"

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ddp {
namespace {

void print_order(const DistributedSampler& sampler, int64_t epoch) {
  std::string lines;
  for (int64_t i = 0; i < sampler.samples(); ++i) lines += fmt::format("{}\n", sampler.sample(epoch - 1, i));
  write_output(stdout, lines, "the order");
}

// Of rank 0, which prints them.
std::string times_of_layers(const Job& job, const PlannedRun& run) {
  MpiSession& session = job.session;
  const DistributedSampler& sampler = job.samplers.train;
  run_on_all_ranks(session, [&] {
    require(session.rank() > 0 || sampler.shard(0).size() > 0, Exit::usage,
            "--layer-times: rank 0 has no sample of the first batch; use a larger --batch-size or other "
            "--rank-weights");
  });
  return abort_on_error(session, [&] {
    const LayerTimes times = measure_layer_times(*run.replica, job.network, *job.data.data.train, sampler);
    return layer_times_text(times, measure_machine_rates(*run.replica));
  });
}

// The four stages of a run. On return the parts of each stage are freed in reverse order; main() ends MPI later.
//
// In a stage, run_on_all_ranks() does the work that a rank does alone: where one rank fails, all ranks throw the same
// error. abort_on_error() does the work in which ranks communicate and hold memory that other ranks or the device use:
// an error of one rank aborts the job (MPI_Abort) before that memory is freed, so that no rank is left waiting.
Exit run_stages(const Options& given, MpiSession& session, Signals& signals, PhaseTracker& phases,
                FlightRecorder& flight_recorder, const Log& log) {
  ResumePoint resume_point;
  const Options options = [&] {
    const auto watchdog = start_watchdog(given.step_timeout, session, phases);
    resume_point = find_resume_point(given, session, log);
    return take_up_options(given, resume_point, session, log);
  }();
  Stopwatch stage;
  Job job = open_job(options, resume_point, session, phases, log);
  if (options.action.print_order) {
    if (session.rank() == 0) print_order(job.samplers.train, *options.action.print_order);
    return Exit::done;
  }
  const double data_seconds = std::exchange(stage, {}).seconds();
  PlannedRun run = plan_run(job, std::move(resume_point));
  if (options.action.plan) {
    const std::string report = abort_on_error(session, [&] {
      return plan_report(*run.replica, *job.data.data.train, job.samplers.train,
                         {run.validation_model.get(), run.average_model.get()}, run.costs);
    });
    const ModelFile& model = job.options.network.source;
    const std::string file = model.built_in ? "" : describe(model) + "\n";
    if (session.rank() == 0)
      write_output(stdout, file + report + describe_groups(job.options, run.replica->parameters) + "\n", "the plan");
    return Exit::done;
  }
  if (options.action.layer_times) {
    const std::string times = times_of_layers(job, run);
    if (session.rank() == 0) write_output(stdout, times, "the times of the layers");
    return Exit::done;
  }
  require_possible_trace(job);
  const double plan_seconds = std::exchange(stage, {}).seconds();
  RestoredRun start = restore_run(job, run);
  start.data_seconds = data_seconds;
  start.plan_seconds = plan_seconds;
  start.restore_seconds = stage.seconds();
  return train_run(job, run, start, signals, flight_recorder);
}

}  // namespace

Exit run(MpiSession& session, Signals& signals, int argc, char** argv,
         std::unique_ptr<doctor::TimeLimit> startup_limit) {
  const Log log(session.rank());
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments[0] == "show") return show(std::span(arguments).subspan(1), session, signals, log);
  if (!arguments.empty() && arguments[0] == "lr-find")
    return lr_find(std::span(arguments).subspan(1), session, signals, log);
  std::optional<std::string> answer;
  const Options options = run_on_all_ranks(session, [&] { return parse_options(argc, argv, answer); });
  if (answer) {
    if (session.rank() == 0) write_output(stdout, *answer, "the output");
    return Exit::done;
  }
  if (options.action.doctor)
    return doctor::run_doctor(options_of_doctor(options, session), session, std::move(startup_limit));
  PhaseTracker phases(session.heartbeats());
  FlightRecorder flight_recorder(session, signals, phases);
  return flight_recorder.write_on_error(
      [&] { return run_stages(options, session, signals, phases, flight_recorder, log); });
}

}  // namespace ddp
