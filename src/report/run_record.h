// What the output folder of a run tells about it: what the report shows.
#pragma once

#include "core/option_change.h"
#include "report/confusion.h"
#include "report/curve.h"
#include "report/events.h"

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddp::report {

using Options = std::vector<std::pair<std::string, std::string>>;  // name without dashes, value

struct ClassFigures {
  std::string name;
  double count = kUnknown, precision = kUnknown, recall = kUnknown, f1 = kUnknown;
};

// summary.json: the end of a run.
struct Summary {
  int64_t steps = 0, world_size = 0;
  std::string model, device;
  double accuracy = kUnknown, top5_accuracy = kUnknown, macro_f1 = kUnknown;
  double seconds_per_epoch = kUnknown, samples_per_second = kUnknown, tokens_per_second = kUnknown;
  std::vector<std::string> speed;  // sentences
  std::string early_stop;          // sentence; empty: the run went on to its last step
  std::vector<ClassFigures> classes;
};

struct RunRecord {
  std::filesystem::path folder;
  std::string name;  // of the run on the page; not empty
  Options options;   // in the order of config.toml

  // Of metrics.jsonl. Vectors have at most so many values; the rest is left out.
  static constexpr size_t kMostEvents = 20'000, kMostProcesses = 100;
  std::vector<RunEvent> processes;
  int64_t steps = 0, epoch = 0;  // of the last step
  int64_t skipped = 0;           // steps
  // By step; throughput in samples/s and in tokens/s, from the times of the steps. Images have no tokens.
  Curve loss, lr, throughput, token_throughput;
  std::vector<EvalEvent> evaluations;
  std::vector<SpeedEvent> speeds;  // their `ranks` hold the slowest rank alone
  std::vector<Parts> ranks;        // mean parts of a step since the run has this number of ranks
  std::optional<TimelineEvent> timeline;
  int64_t unread_lines = 0;

  std::vector<OptionChange> changes;  // of changes.json, at most kMostProcesses

  // Of other files, and only if the run has ended after its last step in metrics.jsonl.
  std::optional<Summary> summary;
  std::optional<Confusion> confusion;

  bool ended() const { return summary.has_value(); }
  bool of_tokens() const { return !std::isnan(token_throughput.mean()); }
  int64_t world_size() const;  // 0: unknown
};

// Reads metrics.jsonl, changes.json, summary.json and confusion.csv. A run that still goes on, or was killed, has no
// summary. `name` and `options` are taken as they are. Throws Error(Exit::data): the folder holds no run, or a file of
// it cannot be read or is broken. A broken line of metrics.jsonl only counts.
RunRecord read_run(const std::filesystem::path& folder, std::string name, Options options);

// Throws Error(Exit::data) where the folder holds no run.
void require_run(const std::filesystem::path& folder);

}  // namespace ddp::report
