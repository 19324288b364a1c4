#include "app/run/run_event.h"

#include "core/printable.h"
#include "ops/cpu/ops.h"
#include "train/step/replica.h"

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

#include <ctime>

namespace ddp {

std::string run_event(const Job& job, const PlannedRun& run, const RestoredRun& start,
                      std::span<const std::string> hosts) {
  const Datasets& data = job.data.data;
  nlohmann::ordered_json event{{"event", "run"},
                               {"step", start.config.start.step},
                               {"time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
                               {"version", DDP_VERSION},
                               {"model", job.options.network.source.name},
                               {"parameters", total_count(run.replica->parameters)},
                               {"data", job.data.kind},
                               {"training_samples", data.train->size()},
                               {"test_samples", data.test ? data.test->size() : 0},
                               {"classes", data.train->classes()},
                               {"batch_size", job.options.batch.size},
                               {"epochs", start.config.epochs},
                               {"steps_per_epoch", job.samplers.train.steps_per_epoch()},
                               {"world_size", job.session.size()},
                               {"threads", run.threads},
                               {"backend", printable(run.backend.description)},
                               {"transport", printable(describe_transport(run.backend, run.replica->communicator))}};
  if (const int64_t length = data.train->sequence_length(); length > 0) event["sequence_length"] = length;
  event["start_seconds"] = {
      {"data", start.data_seconds}, {"plan", start.plan_seconds}, {"restore", start.restore_seconds}};
  for (const MeasuredPass& pass : run.autotune->passes()) {
    auto algorithms = nlohmann::ordered_json::array();
    for (const auto& algorithm : pass.algorithms) algorithms.push_back({algorithm.number, algorithm.microseconds});
    event["algorithms"].push_back({{"pass", pass.name}, {"number_and_us", std::move(algorithms)}});
  }
  for (const std::string& host : hosts) event["hosts"].push_back(printable(host));
  for (const auto& [name, value] : run.backend.identity) event[name] = printable(value);
  if (run.backend.device->is_host()) event["libraries"] = describe_cpu_ops();
  event["libraries"] = event["libraries"].get<std::string>() + ", " + describe_mpi();
  return event.dump();
}

}  // namespace ddp
