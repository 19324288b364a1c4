#include "checkpoint/writer.h"

#include "checkpoint/folder.h"
#include "core/error.h"
#include "core/stopwatch.h"

#include <system_error>
#include <utility>

namespace ddp {

CheckpointWriter::CheckpointWriter(CheckpointWriterConfig config, const Tensors& tensors)
    : config_(std::move(config)), tensors_(tensors) {}

CheckpointWriter::~CheckpointWriter() { finish(); }

void CheckpointWriter::finish() {
  if (thread_.joinable()) thread_.join();
}

void CheckpointWriter::save(SnapshotView snapshot, bool best) {
  finish();
  busy_ = true;
  const int64_t step = snapshot.run.step;
  try {
    thread_ = std::thread([this, best, snapshot = std::move(snapshot)] { write(snapshot, best); });
  } catch (const std::system_error& e) {
    end({.step = step, .path = {}, .error = fmt::format("cannot start the writer thread: {}", e.what())});
  }
}

void CheckpointWriter::write(const SnapshotView& snapshot, bool best) {
  const int64_t begin_ns = steady_ns();
  SaveOutcome outcome{.step = snapshot.run.step, .path = {}, .error = {}};
  try {
    config_.require_in_place();
    outcome.path = write_checkpoint(config_.folder, snapshot, tensors_, best, config_.about_to_write);
    config_.require_in_place();
    prune_checkpoints(config_.folder, config_.keep_last);
  } catch (const std::exception& e) {
    outcome.error = e.what();
    try {
      config_.require_in_place();
    } catch (const Error& lost) {
      outcome.error = lost.what();
      outcome.folder_lost = true;
    }
  }
  const int64_t end_ns = steady_ns();
  outcome.seconds = 1e-9 * static_cast<double>(end_ns - begin_ns);
  if (config_.spans && config_.spans->on())
    config_.spans->record({.track = Track::checkpoint,
                           .name = "write checkpoint",
                           .begin_ns = begin_ns,
                           .end_ns = end_ns,
                           .number = outcome.step});
  end(std::move(outcome));
}

void CheckpointWriter::end(SaveOutcome outcome) {
  const std::lock_guard lock(mutex_);
  ended_.push_back(std::move(outcome));
  busy_ = false;
}

std::vector<SaveOutcome> CheckpointWriter::outcomes() {
  const std::lock_guard lock(mutex_);
  return std::exchange(ended_, {});
}

}  // namespace ddp
