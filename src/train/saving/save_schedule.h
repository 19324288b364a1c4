// When a run saves checkpoints: the option --save-every.
#pragma once

#include <cstdint>
#include <string>

namespace ddp {

struct SaveEvery {  // at most one field is above 0; all 0: never
  int64_t steps = 0, epochs = 0;
  double seconds = 0;

  bool never() const { return steps == 0 && epochs == 0 && seconds == 0; }
  // Whether a save is due after `step` steps, after `epoch` epochs of the run.
  bool at_step(int64_t step) const { return steps > 0 && step % steps == 0; }
  bool at_epoch(int64_t epoch) const { return epochs > 0 && epoch % epochs == 0; }
};

// Parses "100steps", "2epochs", "10min", "30s" or "never". Throws Error(Exit::usage).
SaveEvery parse_save_every(const std::string& text);

}  // namespace ddp
