// What becomes of a run when pictures cannot be read: with Replica::excludes they are excluded, else the run ends.
#pragma once

#include "checkpoint/run_state.h"
#include "data/exclusions.h"
#include "health/phase_tracker.h"
#include "train/observers/run_observer.h"
#include "train/step/replica.h"

#include <cstdint>
#include <map>
#include <string>

namespace ddp {

class BrokenData {
 public:
  // `training` and `validation` are null for data that can always be read. The arguments outlive this object.
  BrokenData(Exclusions* training, Exclusions* validation, Replica& replica, RunObserver& reporter,
             PhaseTracker& phases);

  bool found() const { return training_ && !training_->found().empty(); }  // by this rank, since the last agree()

  // Between steps. The ranks tell each other which pictures they could not read; all exclude them from now on. Writes
  // them to `state`, and rank 0 reports them. `evaluated`: an evaluation has read them, not a step. Returns whether the
  // run goes on: not where it excludes none, nor where so many have broken that the data must be gone, nor where the
  // evaluation had no sample left (`has_samples`). Collective.
  bool agree(RunState& state, bool evaluated, bool has_samples = true);

  bool lost() const { return !why_.empty(); }  // the run cannot go on
  // Throws CollectiveError(Exit::data). `saved`: whether the step of the state is on the disk.
  [[noreturn]] void end(const RunState& state, bool saved) const;

 private:
  bool agree(Exclusions* exclusions, const char* part, PartState& state, int64_t step, bool has_samples = true);

  Exclusions *const training_, *const validation_;
  Replica& replica_;
  RunObserver& reporter_;
  PhaseTracker& phases_;
  std::map<std::string, int64_t> excluded_;  // in this process, by part
  std::string why_;
};

}  // namespace ddp
