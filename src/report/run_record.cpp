#include "report/run_record.h"

#include "core/error.h"
#include "core/json_reader.h"
#include "core/printable.h"
#include "core/read_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

namespace ddp::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kLargestFile = 64 << 20;
constexpr JsonLimits kSummaryLimits{.bytes = kLargestFile, .values = 1'000'000, .depth = 8};

double figure(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : kUnknown;
}

std::string text(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

int64_t whole(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer() ? std::max<int64_t>(0, found->get<int64_t>()) : 0;
}

std::string early_stop_of(const json& summary) {
  const auto found = summary.find("early_stop");
  if (found == summary.end() || !found->is_object()) return "";
  const double loss = figure(*found, "best_loss");
  const bool by_loss = !std::isnan(loss);
  return fmt::format("ended early after epoch {}: evaluations in a row without a {} than {:.4g} of epoch {}: {}",
                     whole(*found, "epoch"), by_loss ? "lower loss" : "better accuracy",
                     by_loss ? loss : figure(*found, "best_accuracy"), whole(*found, "best_epoch"),
                     whole(*found, "evaluations"));
}

Summary summary_of(const json& object) {
  Summary summary{.steps = whole(object, "steps"),
                  .world_size = whole(object, "world_size"),
                  .model = text(object, "model"),
                  .device = text(object, "device"),
                  .accuracy = figure(object, "test_accuracy"),
                  .top5_accuracy = figure(object, "top5_accuracy"),
                  .macro_f1 = figure(object, "macro_f1"),
                  .seconds_per_epoch = figure(object, "sec_per_epoch"),
                  .samples_per_second = figure(object, "samples_per_second"),
                  .tokens_per_second = figure(object, "tokens_per_second"),
                  .speed = {},
                  .early_stop = early_stop_of(object),
                  .classes = {}};
  if (const auto speed = object.find("speed"); speed != object.end() && speed->is_array())
    for (const json& sentence : *speed)
      if (sentence.is_string()) summary.speed.push_back(sentence.get<std::string>());
  if (const auto list = object.find("per_class"); list != object.end() && list->is_array())
    for (const json& entry : *list)
      if (entry.is_object())
        summary.classes.push_back({.name = text(entry, "class"),
                                   .count = figure(entry, "count"),
                                   .precision = figure(entry, "precision"),
                                   .recall = figure(entry, "recall"),
                                   .f1 = figure(entry, "f1")});
  return summary;
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Adds the events of metrics.jsonl to a record.
class Collector {
 public:
  explicit Collector(RunRecord& run) : run_(run) {}

  void operator()(const StepEvent& step) {
    run_.steps = step.step;
    run_.epoch = step.epoch;
    if (!step.skipped.empty()) ++run_.skipped;
    const auto x = static_cast<double>(step.step);
    run_.loss.add(x, step.loss, step.samples > 0 ? step.samples : 1);
    run_.lr.add(x, step.lr);
    const double seconds = step.times.total() / 1e3;
    run_.throughput.add(x, step.samples / seconds, seconds);  // the mean is all samples over all seconds
    run_.token_throughput.add(x, step.tokens / seconds, seconds);
    add(of_steps_, step.times, 1);
  }
  void operator()(EvalEvent& eval) { keep(run_.evaluations, eval); }
  void operator()(RunEvent& process) {
    if (run_.processes.size() < RunRecord::kMostProcesses) keep(run_.processes, process);
  }
  void operator()(TimelineEvent& timeline) { run_.timeline = std::move(timeline); }
  void operator()(SpeedEvent& speed) {
    const double steps = static_cast<double>(std::max<int64_t>(1, speed.step - speed_step_));
    if (sums_.size() != speed.ranks.size()) sums_.assign(speed.ranks.size(), {});
    for (size_t rank = 0; rank < sums_.size(); ++rank) add(sums_[rank], speed.ranks[rank], steps);
    speed_step_ = speed.step;
    speed.ranks = {speed.slowest()};
    keep(run_.speeds, speed);
  }

  void finish() {
    if (sums_.empty() && of_steps_.steps > 0) sums_ = {of_steps_};  // before the first epoch's end: rank 0 alone
    for (const Sum& sum : sums_)
      run_.ranks.push_back({.data = sum.parts.data / sum.steps,
                            .compute = sum.parts.compute / sum.steps,
                            .exposed_comm = sum.parts.exposed_comm / sum.steps});
  }

 private:
  struct Sum {
    Parts parts{.data = 0, .compute = 0, .exposed_comm = 0};
    double steps = 0;
  };
  static void add(Sum& sum, const Parts& times, double steps) {
    sum.parts.data += times.data * steps;
    sum.parts.compute += times.compute * steps;
    sum.parts.exposed_comm += times.exposed_comm * steps;
    sum.steps += steps;
  }
  template <class Value>
  static void keep(std::vector<Value>& values, Value& value) {
    if (values.size() < RunRecord::kMostEvents) values.push_back(std::move(value));
  }

  RunRecord& run_;
  Sum of_steps_;
  std::vector<Sum> sums_;  // of each rank
  int64_t speed_step_ = 0;
};

void read_changes(RunRecord& run) {
  const fs::path file = run.folder / kChangesFile;
  if (!is_there(file)) return;
  const json list = read_json(read_whole_file(file, kLargestFile), file.string(), kSummaryLimits);
  require(list.is_array(), Exit::data, "{} is no JSON array", file.string());
  for (const json& entry : list)
    if (entry.is_object() && run.changes.size() < RunRecord::kMostProcesses)
      run.changes.push_back({.step = whole(entry, "step"),
                             .option = text(entry, "option"),
                             .from = text(entry, "from"),
                             .to = text(entry, "to")});
}

void read_results(RunRecord& run) {
  const fs::path file = run.folder / "summary.json";
  if (!is_there(file)) return;
  const json object = read_json(read_whole_file(file, kLargestFile), file.string(), kSummaryLimits);
  require(object.is_object(), Exit::data, "{} is no JSON object", file.string());
  Summary summary = summary_of(object);
  if (summary.steps < run.steps) return;  // of the run before it was resumed
  run.summary = std::move(summary);
  const fs::path matrix = run.folder / "confusion.csv";
  if (is_there(matrix)) run.confusion = parse_confusion(read_whole_file(matrix, kLargestFile), matrix.string());
}

}  // namespace

int64_t RunRecord::world_size() const {
  if (!processes.empty() && processes.back().world_size > 0) return processes.back().world_size;
  if (summary && summary->world_size > 0) return summary->world_size;
  return speeds.empty() ? 0 : std::ssize(ranks);
}

void require_run(const fs::path& folder) {
  require(is_there(folder), Exit::data, "{} does not exist; give the --output-dir of a training",
          printable(folder.native()));
  require(is_there(folder / "metrics.jsonl"), Exit::data,
          "{} is no folder of a run: it has no metrics.jsonl; give the --output-dir of a training",
          printable(folder.native()));
}

RunRecord read_run(const fs::path& folder, std::string name, Options options) {
  require_run(folder);
  RunRecord run;
  run.folder = folder;
  run.name = std::move(name);
  run.options = std::move(options);
  Collector collect(run);
  run.unread_lines = read_events(folder / "metrics.jsonl", [&](Event&& event) { std::visit(collect, event); });
  collect.finish();
  read_changes(run);
  read_results(run);
  return run;
}

}  // namespace ddp::report
