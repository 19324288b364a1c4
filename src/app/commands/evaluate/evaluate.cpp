#include "app/commands/evaluate/evaluate.h"

#include "app/commands/evaluate/evaluate_options.h"
#include "app/commands/evaluate/evaluated_data.h"
#include "app/commands/predict/shared_network.h"
#include "app/inputs/input_names.h"
#include "app/inputs/reading.h"
#include "app/machine/factory.h"
#include "app/machine/threads.h"
#include "app/run/class_report.h"
#include "app/run/open_job.h"
#include "core/durable_file.h"
#include "core/log.h"
#include "health/abort.h"
#include "health/run_on_all_ranks.h"
#include "train/agree_on_exclusions.h"
#include "train/evaluation/evaluation.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>

namespace ddp {
namespace {

namespace fs = std::filesystem;

struct Result {
  Evaluation evaluation;
  std::optional<ClassCounts> classes = {};  // of images
};

// Rank 0: creates the folder, which has no run.
void open_folder(const fs::path& folder) {
  create_durable_folders(folder);
  for (const char* name : {"summary.json", "model.safetensors", "checkpoints", "config.toml"}) {
    std::error_code ignored;
    require(!fs::exists(folder / name, ignored), Exit::output, "{} holds a run ({}); choose another --output-dir",
            folder.string(), name);
  }
}

class Evaluate {
 public:
  Evaluate(const EvaluateOptions& given, MpiSession& session, const Signals& signals)
      : given_(given),
        options_(given.options),
        session_(session),
        signals_(signals),
        log_(session.rank()),
        phases_(session.heartbeats()),
        watchdog_(start_watchdog(options_.step_timeout, session, phases_)),
        world_(session.world(options_.transport.allreduce)) {}

  Exit run(std::span<const std::string> arguments) {
    require_same_arguments(arguments, *world_);
    run_on_all_ranks(session_, [&] {
      if (session_.rank() == 0 && !options_.output.dir.empty()) open_folder(options_.output.dir);
    });
    const SharedNetwork shared = share_trained_network(given_.weights, given_.ema, given_.network, session_, *world_,
                                                       log_, [&](const std::string& line) { log_.info("{}", line); });
    const std::string& weights = shared.weights;
    const ModelInfo& model = shared.info;
    const EvaluatedData data =
        load_evaluated_data(options_.data, options_.seed, model, session_, *world_, log_, reading_phase(phases_));
    for (const std::string& note : data.notes) log_.info("{}", note);

    const Backend backend = make_backend(device_for(model), options_.transport, session_);
    if (!backend.compiling.empty()) log_.info("{}", backend.compiling);
    const auto result = compute(shared.trained, weights, data, backend);
    phases_.enter(Phase::shutdown, 0);
    if (!result) return report_stop();
    const double loss = result->evaluation.loss;
    if (!std::isfinite(loss))
      throw CollectiveError(Exit::numerics, fmt::format("the network computes NaN or infinity: the loss is {}", loss));
    if (session_.rank() == 0) print(*result, model, data, backend);
    run_on_all_ranks(session_, [&] {
      if (session_.rank() == 0 && !options_.output.dir.empty()) write(*result, model, weights, data.listings);
    });
    return Exit::done;
  }

 private:
  // Without --precision, that of the training where the device in use has it. Collective.
  DeviceConfig device_for(const ModelInfo& model) const {
    DeviceConfig config = options_.device;
    if (config.precision || !model.precision) return config;
    const std::string& name = name_in(kPrecisionNames, *model.precision);
    const bool on_cpu = device_in_use(config.kind, session_) == DeviceKind::cpu;
    if (on_cpu && model.precision == Precision::tf32) {
      log_.info("the training had --precision {}, which a CPU does not have: fp32", name);
      return config;
    }
    log_.info("--precision {}, as in the training", name);
    config.precision = model.precision;
    return config;
  }

  // None after a stop signal.
  std::optional<Result> compute(const TrainedNetwork& network, const std::string& weights, const EvaluatedData& data,
                                const Backend& backend) {
    const int threads =
        backend.device->is_host() ? choose_threads(options_.device.threads, *world_, session_.host()) : 1;
    AutotuneCache autotune;
    const auto ops = run_on_all_ranks(session_, [&] { return make_ops(backend, *world_, threads, autotune); });
    const DistributedSampler sampler(data.data->size(), options_.batch.size, Order::sequential, 0, session_.rank(),
                                     std::vector<double>(session_.size(), 1.0));
    if (backend.device->is_host())
      run_on_all_ranks(
          session_, [&] { require_memory(network.network, sampler.largest_shard(), session_.local_size(), weights); });
    return abort_on_error(session_, [&]() -> std::optional<Result> {
      std::vector<int64_t> sizes = sampler.local_batch_sizes();
      if (sizes.empty()) sizes.push_back(1);
      Device& device = *backend.device;
      InferenceModel model(network, sizes, device, *ops);
      DataPlacement placement = placement_for(options_, data.workers, log_);
      placement.exclusions = data.exclusions.get();
      DeviceDataset on_device(device, *data.data, sampler.largest_shard(), placement);
      Evaluator evaluator({model.model(), model.running_stats(), device, *world_}, on_device, sampler);
      const auto evaluation = evaluator.run([&, batches = int64_t{0}]() mutable {
        phases_.enter(Phase::evaluation, 0);
        return batches++ % Evaluator::kStopCheckInterval != 0 || !world_->any(signals_.stop_requested());
      });
      if (evaluation && data.exclusions) name_excluded(*data.exclusions, *evaluation);
      if (!evaluation) return std::nullopt;
      if (data.data->sequence_length() > 0) return Result{*evaluation};
      return Result{*evaluation, evaluator.count_classes()};
    });
  }

  // Throws where too few samples are left.
  void name_excluded(Exclusions& exclusions, const Evaluation& evaluation) const {
    constexpr size_t kMostNamed = 20;
    const auto broken = agree_on_exclusions(exclusions, 1, *world_);
    if (broken.empty()) return;
    if (evaluation.samples == 0 || are_gone(std::ssize(broken), exclusions.pictures()))
      throw CollectiveError(Exit::data, fmt::format("{} of {} pictures cannot be read any more, such as: {}",
                                                    broken.size(), exclusions.pictures(), broken[0].reason));
    if (session_.rank() != 0) return;
    std::string lines;
    for (size_t i = 0; i < std::min(broken.size(), kMostNamed); ++i) lines += "\n  " + broken[i].reason;
    log_.warn("{} pictures could not be read any more and are excluded:{}", broken.size(), lines);
  }

  Exit report_stop() const {
    log_.info("stopped by a signal before the end: there are no figures");
    return Exit::stopped;
  }

  void print(const Result& result, const ModelInfo& model, const EvaluatedData& data, const Backend& backend) const {
    const Evaluation& e = result.evaluation;
    if (!result.classes) {
      log_.info("{}: {} windows of {} tokens evaluated on {} x {}", data.kind, e.samples, data.data->sequence_length(),
                session_.size(), backend.device->name());
      log_.info("loss {:.4f}, perplexity {:.4f}, acc {:.4f}", e.loss, e.perplexity(), e.accuracy());
      return;
    }
    const ClassCounts& classes = *result.classes;
    const auto top5 = classes.top5_accuracy();
    log_.info("{}", class_table(classes, model));
    log_.info("{}: {} samples evaluated{} on {} x {}", data.kind, e.samples,
              e.excluded > 0 ? fmt::format(", {} excluded,", e.excluded) : "", session_.size(), backend.device->name());
    log_.info("acc {:.4f} ({}/{}){}, loss {:.4f}, macro F1 {:.4f}", e.accuracy(), e.correct, e.samples,
              top5 ? fmt::format(", top-5 acc {:.4f}", *top5) : "", e.loss, classes.macro_f1());
  }

  void write(const Result& result, const ModelInfo& model, const std::string& weights,
             const std::map<std::string, std::string>& listings) const {
    const fs::path folder = options_.output.dir;
    const Evaluation& e = result.evaluation;
    nlohmann::ordered_json report{{"model", model.model},         {"weights", stored_name(weights)},
                                  {"accuracy", e.accuracy()},     {"correct", e.correct},
                                  {"samples", e.samples},         {"loss", e.loss},
                                  {"world_size", session_.size()}};
    if (e.excluded > 0) report["excluded"] = e.excluded;
    if (!result.classes) report["perplexity"] = e.perplexity();
    if (result.classes) add_class_figures(report, *result.classes, model);
    replace_file(folder / "evaluation.json", report.dump(2) + "\n");
    for (const auto& [name, content] : listings) replace_file(folder / name, content);
    if (!result.classes) return;
    if (result.classes->has_matrix())
      replace_file(folder / "confusion.csv", confusion_csv(*result.classes, model));
    else
      log_.info("no confusion.csv: the network has more than {} classes", ClassCounts::kMostInMatrix);
  }

  const EvaluateOptions& given_;
  const Options& options_;
  MpiSession& session_;
  const Signals& signals_;
  const Log log_;
  PhaseTracker phases_;
  const std::unique_ptr<Watchdog> watchdog_;
  const std::unique_ptr<Communicator> world_;
};

}  // namespace

Exit evaluate(MpiSession& session, const Signals& signals, std::span<const std::string> arguments) {
  std::optional<std::string> answer;
  const EvaluateOptions options = run_on_all_ranks(session, [&] { return parse_evaluate_options(arguments, answer); });
  if (answer) {
    if (session.rank() == 0) write_output(stdout, *answer, "the output");
    return Exit::done;
  }
  return Evaluate(options, session, signals).run(arguments);
}

}  // namespace ddp
