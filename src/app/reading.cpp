#include "app/reading.h"

#include "core/stopwatch.h"

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

}  // namespace ddp
