#include "app/inputs/reading.h"

#include "core/stopwatch.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

namespace ddp {

Reading reading_phase(PhaseTracker& phases) {
  constexpr double kSeconds = 1;  // between two entries: the flight record holds a thousand
  const auto entered = std::make_shared<std::optional<Stopwatch>>();  // none: this rank does not read
  return {.progress =
              [&phases, entered] {
                if (*entered && (*entered)->seconds() < kSeconds) return;
                entered->emplace();
                phases.enter(Phase::reading, 0);
              },
          .done =
              [&phases, entered] {
                entered->reset();
                phases.enter(Phase::start_up, 0);
              }};
}

DataPlacement placement_for(const Options& options, int workers, const Log& log) {
  constexpr double kSeconds = 20;
  const std::optional<double> step_timeout = options.step_timeout;
  const double seconds = step_timeout && *step_timeout > 0 ? std::min(kSeconds, *step_timeout / 2) : kSeconds;
  return {.device_bytes = static_cast<size_t>(options.device.data_mb) << 20,
          .workers = workers,
          .slow = {.patience = std::chrono::milliseconds(static_cast<int64_t>(1e3 * seconds)),
                   .report = [seconds, &log](const std::string& file) {
                     log.warn("has waited {:g} s for data{}{}", seconds, file.empty() ? "" : "; reads ", file);
                   }}};
}

}  // namespace ddp
