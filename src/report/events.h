// The events of metrics.jsonl as values. The file may be a stranger's, may be cut, and may grow meanwhile.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddp::report {

// The place of a number that is missing, null, or beyond 1e30.
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Mean times of a rank's step, in ms.
struct Parts {
  double data = kUnknown, compute = kUnknown, exposed_comm = kUnknown;
  double total() const { return data + compute + exposed_comm; }
  double busy() const { return data + compute; }
};
// The rank with the longest time of data and compute. `ranks`: one or more.
const Parts& slowest_of(const std::vector<Parts>& ranks);

struct StepEvent {
  int64_t step = 0, epoch = 0;
  double loss = kUnknown, lr = kUnknown, samples = kUnknown;  // the loss of a skipped step may be unknown
  double tokens = kUnknown;                                   // of a run on tokens only
  Parts times;                                                // of rank 0
  std::string skipped;                                        // the reason; empty: the weights were updated
};

struct EvalEvent {
  int64_t step = 0, epoch = 0;
  double accuracy = kUnknown, loss = kUnknown, samples = kUnknown, seconds = kUnknown;
  double ema_accuracy = kUnknown, ema_loss = kUnknown;
  double perplexity = kUnknown;  // of a run on tokens only
};

// Means since the last such event.
struct SpeedEvent {
  int64_t step = 0, epoch = 0;
  std::vector<Parts> ranks;  // one or more
  double communication = kUnknown, noise_scale = kUnknown;

  const Parts& slowest() const { return slowest_of(ranks); }
};

// A process of the run, from the step after `step` on.
struct RunEvent {
  int64_t step = 0, world_size = 0, epochs = 0, steps_per_epoch = 0;  // 0: unknown
  std::vector<std::string> hosts;                                     // of each rank
  // What else it says about itself, as text, in the order of kProcessFacts; what is missing is left out.
  std::vector<std::pair<std::string, std::string>> facts;

  std::string fact(const std::string& name) const;  // empty where it is missing
};

// Times in ms from the begin of the step, on one clock for all ranks.
struct Span {
  std::string track, name;  // track: "step", "layers", "buckets" or another one
  double begin = 0, end = 0;
};
struct RankSpans {
  int64_t rank = 0;
  std::vector<Span> spans;
};
struct TimelineEvent {
  int64_t step = 0;
  double ms = kUnknown;  // of the step
  std::vector<RankSpans> ranks;
};

using Event = std::variant<StepEvent, EvalEvent, SpeedEvent, RunEvent, TimelineEvent>;

// None for an event of another kind, or for one whose step or parts make no sense.
std::optional<Event> parse_event(const nlohmann::json& event);

// Calls `take` for each event in the order of the file. Returns the number of lines that are no JSON object with the
// name of an event, or longer than 4 MiB; a last line without its end does not count, because the run may still write
// it. The time is linear in the size of the file, the memory bounded. Throws Error(Exit::data) where the file cannot be
// read.
int64_t read_events(const std::filesystem::path& metrics, const std::function<void(Event&&)>& take);

}  // namespace ddp::report
