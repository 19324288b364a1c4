#include "app/run/train_run.h"

#include "app/inputs/model_info.h"
#include "app/inputs/vocabulary_of_run.h"
#include "app/run/banner.h"
#include "app/run/make_reporter.h"
#include "app/run/make_trace.h"
#include "app/run/profile_of_run.h"
#include "app/run/results.h"
#include "checkpoint/folder.h"
#include "checkpoint/writer.h"
#include "core/durable_file.h"
#include "health/abort.h"
#include "health/run_on_all_ranks.h"
#include "train/fault_injection.h"
#include "train/step/replica.h"
#include "train/trainer.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ddp {
namespace {

// What the network of this run reads.
ModelInfo describe_model(const Job& job, const PixelNormalization& pixels) {
  const LoadedData& loaded = job.data;
  const Dataset& train = *loaded.data.train;
  const bool as_is = loaded.transforms.empty();
  const Network& network = job.validation_network ? *job.validation_network : job.network;
  return {.model = job.options.network.source.name,
          .graph = job.options.network.source.text,
          .image = network.input(),
          .classes = train.classes(),
          .class_names = loaded.class_names,
          .sequence_length = train.sequence_length(),
          .vocabulary_hash = vocabulary_hash(loaded),
          .kind = as_is ? TransformConfig::Kind::none : loaded.validation.kind,
          .resize = as_is ? 0 : loaded.validation.resize,
          .interpolation = loaded.decode.interpolation,
          .exif = loaded.decode.exif,
          .alpha = loaded.decode.alpha,
          .pixel_scale = pixels.scale,
          .precision = job.options.device.precision};
}

// Null on ranks other than 0. `run`, `start` and `spans` outlive the writer.
std::unique_ptr<CheckpointWriter> make_writer(const Job& job, const PlannedRun& run, const RestoredRun& start,
                                              SpanRecorder* spans) {
  const int rank = job.session.rank();
  if (rank != 0) return nullptr;
  CheckpointWriterConfig config{.folder = checkpoints_of(start.folder.path()),
                                .keep_last = job.options.checkpoint.keep_last,
                                .require_in_place = [&start] { start.folder.require_in_place(); },
                                .about_to_write = job.injection ? full_disk(*job.injection, rank) : nullptr,
                                .spans = spans};
  return std::make_unique<CheckpointWriter>(std::move(config),
                                            Tensors{.parameters = run.replica->parameters,
                                                    .batch_norms = run.replica->batch_norms,
                                                    .metadata = describe_model(job, run.pixels).to_metadata()});
}

// The results are complete without it.
void write_profile(const RunProfile& profile, const OutputFolder& folder, const Log& log) {
  try {
    folder.require_in_place();
    replace_file(folder.path() / kProfileFile, to_json(profile));
  } catch (const Error& error) {
    log.warn("the profile of the run is not written: {}", error.what());
  }
}

// Trains while the watchdog counts the collectives of the steps.
TrainReport train_monitored(const Job& job, const PlannedRun& run, const TrainConfig& config,
                            const Observers& observers) {
  const auto monitoring = monitor_steps(job, *run.replica);
  return train(config, *run.replica, job.data.data, job.samplers, observers);
}

}  // namespace

Exit train_run(const Job& job, const PlannedRun& run, RestoredRun& start, Signals& signals,
               FlightRecorder& flight_recorder) {
  MpiSession& session = job.session;
  const DistributedSampler& sampler = job.samplers.train;
  start.config.stop_requested = [&] { return signals.stop_requested(); };
  flight_recorder.set_run_folder(start.path);
  const std::string ranks = describe_ranks(run.backend, run.replica->communicator, run.threads, session);
  job.log.info("{}", banner(job.options, *run.replica, run.costs.has_value(), job.data, run.pixels, job.samplers, ranks,
                            start.path));

  const std::vector<std::string> hosts = session.gather(session.host());
  const auto reporter = make_reporter(job, run, start, hosts);
  const auto trace = make_trace(job, start.config.start.step, hosts);
  start.config.data_placement.spans = trace.get();
  const PhaseTracker::Recording phases(job.phases, trace.get());
  const auto writer = make_writer(job, run, start, trace.get());

  return abort_on_error(session, [&] {
    const TrainReport report = train_monitored(job, run, start.config,
                                               {.reporter = *reporter,
                                                .phases = job.phases,
                                                .writer = writer.get(),
                                                .trace = trace.get(),
                                                .on_error = [&session] { report_before_unwinding(session); }});
    report_trace(trace.get(), job);
    // Rank 0 writes. No rank ends before it has: a rank that has left the job would pass for one that has reported.
    run_on_all_ranks(session, [&] {
      start.folder.require_in_place();
      if (!report.stopped)
        write_results(describe_model(job, run.pixels), report, *run.replica, sampler, hosts, job.log, start.path);
      reporter->close(report.stopped);
      if (trace) trace->close();
    });
    const auto profile = profile_of_run(job, run, report, hosts);
    run_on_all_ranks(session, [&] {
      if (profile) write_profile(*profile, start.folder, job.log);
    });
    job.phases.enter(Phase::shutdown, report.state.step);
    return report.stopped ? report_stop(session, signals, report, start.path, job.log) : Exit::done;
  });
}

}  // namespace ddp
