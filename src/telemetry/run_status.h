// The state of a run, for others than itself: the contents of status.json.
#pragma once

#include "health/ranks_view.h"
#include "telemetry/progress_bar.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

// What a rank does.
struct RankLine {
  int rank = 0;
  std::string host;
  std::string phase;          // such as "in the data loader", or "stopped"
  int64_t step = 0;           // of the phase
  double silent_seconds = 0;  // since its last sign of life; negative: there was none
};
RankLine line_of(const RankStatus& rank);

struct RunStatus {
  enum class State : uint8_t { running, done, stopped, failed };
  State state = State::running;
  std::string host;                      // of rank 0
  int64_t pid = 0;                       // of rank 0, on its host
  double written = 0;                    // seconds since 1970, by the clock of that host
  Progress progress;                     // of the newest step
  int64_t step = 0, steps = 0;           // steps of the run: done, and all
  std::optional<double> accuracy;        // of the last evaluation of this process
  std::optional<double> test_loss = {};  // of that evaluation, on tokens
  std::vector<RankLine> ranks;
};

// JSON has no NaN and no infinity: such values are null, and unknown when they are read. Texts may be no UTF-8.
std::string status_json(const RunStatus& status);

// `text` may be a stranger's. Throws Error(Exit::data) where it is no status; `subject` is its name in the message.
RunStatus parse_status(std::string_view text, const std::string& subject);

inline constexpr int64_t kMostStatusBytes = 4 << 20;

}  // namespace ddp
