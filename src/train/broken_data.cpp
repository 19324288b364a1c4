#include "train/broken_data.h"

#include "core/error.h"
#include "train/agree_on_exclusions.h"

#include <utility>
#include <vector>

namespace ddp {

BrokenData::BrokenData(Exclusions* training, Exclusions* validation, Replica& replica, RunObserver& reporter,
                       PhaseTracker& phases)
    : training_(training), validation_(validation), replica_(replica), reporter_(reporter), phases_(phases) {}

// The pictures of an evaluation that ends the run count as broken after the last step: a resumed run may read them.
bool BrokenData::agree(RunState& state, bool evaluated, bool has_samples) {
  if (!training_ && !validation_) return true;
  phases_.enter(Phase::replicas, state.step);
  PicturesState not_kept;  // of windows of tokens
  PicturesState& pictures = state.pictures ? *state.pictures : not_kept;
  const int64_t step = !evaluated ? 0 : state.step + (replica_.excludes ? 0 : 1);
  const bool trains = agree(training_, "training", pictures.training, step),
             tests = agree(validation_, "validation", pictures.validation, step, has_samples);
  return trains && tests;
}

bool BrokenData::agree(Exclusions* exclusions, const char* part, PartState& state, int64_t step, bool has_samples) {
  if (!exclusions) return true;
  const std::vector<BrokenPicture> added = agree_on_exclusions(*exclusions, step, replica_.communicator);
  const std::string such_as = added.empty() ? "" : ", such as: " + added[0].reason;
  if (!replica_.excludes) {
    if (added.empty()) return true;
    state.broken = exclusions->known();
    why_ = added[0].reason;
    return false;
  }
  const int64_t new_ones = excluded_[part] += std::ssize(added), pictures = exclusions->pictures(),
                known = std::ssize(exclusions->known());
  std::string why;
  if (!has_samples)
    why = fmt::format("no {} picture can be read{}", part, such_as);
  else if (!added.empty() && are_gone(new_ones, pictures))
    why = fmt::format("{} of {} {} pictures cannot be read any more{}", new_ones, pictures, part, such_as);
  else if (!added.empty() && known > kMostExcluded)
    why = fmt::format("{} of {} {} pictures have broken since the run began, and a run excludes at most {}{}", known,
                      pictures, part, kMostExcluded, such_as);
  if (!why.empty()) {
    why_ = std::move(why);
    return false;
  }
  if (added.empty()) return true;
  state.broken = exclusions->known();
  if (replica_.communicator.rank() == 0) reporter_.excluded(part, added, known, pictures);
  return true;
}

void BrokenData::end(const RunState& state, bool saved) const {
  const bool skips = !replica_.excludes && training_ && training_->are_pictures();
  throw CollectiveError(Exit::data, fmt::format("{}\nstep {} {}: mend the data and resume the run{}", why_, state.step,
                                                saved ? "is saved" : "could not be saved",
                                                skips ? ", or resume it with --on-error skip" : ""));
}

}  // namespace ddp
