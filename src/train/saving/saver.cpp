#include "train/saving/saver.h"

#include "core/error.h"

#include <array>
#include <utility>

namespace ddp {

Saver::~Saver() {
  if (writer_) writer_->finish();
}

void Saver::set_saved(const RunState& state, const std::filesystem::path& checkpoint) {
  saved_ = state;
  step_ = state.step;
  path_ = checkpoint;
}

bool Saver::saved(const RunState& state) const {
  return saved_.step == state.step && saved_.evaluation_due == state.evaluation_due &&
         saved_.bn_stats_samples == state.bn_stats_samples;
}

// All ranks wait at the barrier in phase `saving`, so that the watchdog counts no rank as late while rank 0 waits for
// the disk.
void Saver::save(const RunState& state, int64_t updates, bool best) {
  phases_.enter(Phase::saving, state.step);
  reporter_.flush();  // a resumed run keeps these events
  if (writer_) {
    writer_->finish();  // it reads the buffers
    report_finished();
  }
  replica_.communicator.barrier();
  auto snapshot = buffers_.take(state, updates);
  if (writer_) {
    saving_best_ = best || best_unsaved_;
    writer_->save(std::move(*snapshot), saving_best_);
  }
  saved_ = state;
  since_save_ = {};
}

bool Saver::finish(int64_t step) {
  phases_.enter(Phase::saving, step);
  if (writer_) writer_->finish();
  report_finished();
  std::array<double, 1> saved{step_ == step ? 1.0 : 0.0};  // only rank 0 knows
  replica_.communicator.all_reduce_host(saved);
  if (saved[0] > 0) return true;
  saved_.step = -1;
  return false;
}

void Saver::report_finished() {
  if (!writer_) return;
  for (const SaveOutcome& outcome : writer_->outcomes()) {
    require(!outcome.folder_lost, Exit::output, "{}", outcome.error);
    reporter_.saved(outcome);
    best_unsaved_ = saving_best_ && !outcome.error.empty();
    if (!outcome.error.empty()) continue;
    path_ = outcome.path;
    step_ = outcome.step;
  }
}

}  // namespace ddp
