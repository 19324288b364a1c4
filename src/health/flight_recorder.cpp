#include "health/flight_recorder.h"

#include "core/log.h"
#include "health/abort.h"

#include <csignal>

namespace ddp {

FlightRecorder::FlightRecorder(MpiSession& session, Signals& signals, const PhaseTracker& phases)
    : session_(session), signals_(signals), phases_(phases) {
  session_.on_abort([this](std::string_view why) {
    {
      const std::lock_guard lock(mutex_);
      error_ = why;
    }
    write();
  });
  signals_.on_dump([this](int signal) {
    if (signal == SIGUSR2 || job_has_failed(session_)) write();
  });
}

FlightRecorder::~FlightRecorder() {
  signals_.on_dump({});
  session_.on_abort({});
}

void FlightRecorder::set_run_folder(const std::filesystem::path& folder) {
  const std::lock_guard lock(mutex_);
  folder_ = folder;
  id_ = file_id(folder);
}

void FlightRecorder::write() {
  const std::lock_guard lock(mutex_);
  if (folder_.empty()) return;
  if (id_ && id_ != file_id(folder_)) {
    Log(session_.rank()).warn("{} was removed or replaced: no flight record", folder_.string());
    return;
  }
  if (!id_) {
    try {
      create_durable_folders(folder_);
    } catch (const Error& e) {
      Log(session_.rank()).warn("{}", e.what());
      return;
    }
  }
  const std::string problem = phases_.write(folder_ / "flight" / fmt::format("rank-{}.json", session_.rank()), error_);
  if (!problem.empty()) Log(session_.rank()).warn("{}", problem);
}

}  // namespace ddp
