#include "app/run/results.h"

#include "app/run/class_report.h"
#include "checkpoint/names.h"
#include "checkpoint/state_dict.h"
#include "core/durable_file.h"
#include "ddp/step_speed.h"
#include "health/run_on_all_ranks.h"

#include <nlohmann/json.hpp>

#include <vector>

namespace ddp {
namespace {

void add_token_figures(nlohmann::ordered_json& summary, const TrainReport& report, double tokens_per_second) {
  summary["tokens_per_second"] = tokens_per_second;
  if (report.state.best_loss) summary["best_loss"] = *report.state.best_loss;
  if (!report.evaluation) return;
  summary["test_loss"] = report.evaluation->loss;
  summary["perplexity"] = report.evaluation->perplexity();
  if (report.evaluation->average) summary["ema_loss"] = report.evaluation->average->loss;
}

// Such as "test acc: 0.91", or of tokens "test loss 3.42, perplexity 30.6".
std::string last_figures(const TrainReport& report) {
  const auto& e = report.evaluation;
  if (report.sequence_length == 0)
    return "test acc: " + (e ? fmt::format("{:.2f}", e->accuracy()) : "not evaluated") +
           (e && e->average ? fmt::format(", EMA {:.2f}", e->average->accuracy) : "");
  if (!e) return "test loss: not evaluated";
  return fmt::format("test loss {:.2f}{}, perplexity {:.3g}", e->loss,
                     e->average ? fmt::format(", EMA {:.2f}", e->average->loss) : "", e->perplexity());
}

// Saves the weights, or their average, with statistics in device memory. Those of a CPU are not copied.
void save(const std::filesystem::path& file, const Replica& replica, int64_t updates, const WeightAverage* average,
          const float* stats, const Metadata& metadata) {
  const bool copies = !replica.device.is_host();
  const float* weights = average ? average->weights() : replica.weights();
  const int64_t stats_count = state_count(replica.batch_norms);
  std::vector<float> own_weights, own_stats;
  if (copies) {
    own_weights = average ? replica.download(weights, replica.weights_count) : replica.download_weights();
    own_stats = replica.download_stats(stats);
  }
  save_state_dict(file, replica.parameters, replica.batch_norms,
                  {.weights = {copies ? own_weights.data() : weights, static_cast<size_t>(replica.weights_count)},
                   .statistics = {copies ? own_stats.data() : stats, static_cast<size_t>(stats_count)},
                   .updates = updates,
                   .frozen_updates = replica.frozen_updates},
                  metadata);
}

}  // namespace

void write_results(const ModelInfo& model, const TrainReport& report, const Replica& replica,
                   const DistributedSampler& sampler, std::span<const std::string> hosts, const Log& log,
                   const std::filesystem::path& folder) {
  const bool trained = report.samples > 0;  // false: the run had ended before it was resumed
  const double per_second = trained ? static_cast<double>(report.samples) / report.seconds
                                    : static_cast<double>(report.state.samples) / report.state.train_seconds;
  const double per_epoch = static_cast<double>(sampler.samples()) / per_second;
  const double tokens_per_second = static_cast<double>(report.sequence_length) * per_second;
  const std::string device = replica.device.name();
  const int world = replica.communicator.size();
  const int64_t recomputed = report.state.bn_stats_samples;
  if (replica.communicator.rank() != 0) return;

  save(folder / "model.safetensors", replica, report.updates, nullptr,
       recomputed > 0 ? replica.eval_stats() : replica.running_stats(),
       with_statistics(model.to_metadata(), replica.batch_norms, recomputed));
  if (replica.average)
    save(folder / kAverageFile, replica, report.updates, replica.average.get(), replica.average->running_stats(),
         of_average(model.to_metadata(), replica.batch_norms));
  nlohmann::ordered_json summary{{"model", model.model},
                                 {"test_accuracy", nullptr},
                                 {"best_accuracy", nullptr},
                                 {"best_epoch", nullptr},  // null: no evaluation, or unknown
                                 {"sec_per_epoch", per_epoch},
                                 {"samples_per_second", per_second},
                                 {"world_size", world},
                                 {"device", device},
                                 {"parameters", total_count(replica.parameters)},
                                 {"steps", report.state.step}};
  if (report.evaluation) summary["test_accuracy"] = report.evaluation->accuracy();
  if (report.evaluation && report.evaluation->average) summary["ema_accuracy"] = report.evaluation->average->accuracy;
  if (report.state.best_accuracy >= 0) summary["best_accuracy"] = report.state.best_accuracy;
  if (report.state.best_epoch > 0) summary["best_epoch"] = report.state.best_epoch;
  if (report.sequence_length > 0) add_token_figures(summary, report, tokens_per_second);
  if (report.classes) {
    add_class_figures(summary, *report.classes, model);
  }
  if (const auto& stop = report.early_stop)
    summary["early_stop"] = {{"epoch", report.state.epoch},
                             {"evaluations", stop->bad},
                             {stop->best_loss ? "best_loss" : "best_accuracy", stop->best_loss.value_or(stop->best)},
                             {"best_epoch", stop->best_epoch}};
  const std::vector<std::string> speed = report.speed ? explain(*report.speed, hosts) : std::vector<std::string>();
  if (!speed.empty()) summary["speed"] = speed;
  // A matrix of earlier weights does not stay.
  if (report.classes && report.classes->has_matrix())
    replace_file(folder / "confusion.csv", confusion_csv(*report.classes, model));
  else
    std::filesystem::remove(folder / "confusion.csv");
  replace_file(folder / "summary.json", summary.dump(2) + "\n");
  for (const std::string& sentence : speed) log.info("{}", sentence);
  const std::string tokens = report.sequence_length > 0 ? fmt::format(", {:.0f} tokens/sec", tokens_per_second) : "";
  log.info("{}, {:.1f} sec/epoch{} on {} x {}", last_figures(report), per_epoch, tokens, world, device);
}

Exit report_stop(MpiSession& session, const Signals& signals, const TrainReport& report,
                 const std::filesystem::path& folder, const Log& log) {
  run_on_all_ranks(session, [&] {
    require(session.rank() != 0 || report.checkpoint_step == report.state.step, Exit::output,
            "a stop was requested, but step {} could not be saved; the last checkpoint of {} is older",
            report.state.step, folder.string());
  });
  std::string asked;
  const auto requests = session.gather(signals.stop_requested() ? signals.stop_signal() : "");
  for (int rank = session.size() - 1; rank >= 0; --rank)
    if (!requests[rank].empty()) asked = fmt::format("{} at rank {}", requests[rank], rank);
  log.info("stopped by {} at step {}: saved {}; resume with --resume {}", asked, report.state.step,
           report.checkpoint.string(), folder.string());
  return Exit::stopped;
}

}  // namespace ddp
