// When a run saves.
#pragma once

#include <cstdint>
#include <string>

namespace ddp {

struct SaveEvery {  // at most one is above 0; none: never
  int64_t steps = 0, epochs = 0;
  double seconds = 0;

  bool never() const { return steps == 0 && epochs == 0 && seconds == 0; }
  bool at_step(int64_t step) const { return steps > 0 && step % steps == 0; }       // after so many of the run
  bool at_epoch(int64_t epoch) const { return epochs > 0 && epoch % epochs == 0; }  // the same
};

// "100steps", "2epochs", "10min", "30s" or "never". Throws Error(Exit::usage).
SaveEvery parse_save_every(const std::string& text);

}  // namespace ddp
