// Writes this rank's flight record (see PhaseTracker::json) to <run folder>/flight/rank-N.json when the job fails, and
// on SIGUSR2.
#pragma once

#include "comm/mpi/session.h"
#include "core/durable_file.h"
#include "health/phase_tracker.h"
#include "health/signals.h"

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace ddp {

class FlightRecorder {
 public:
  // The arguments outlive it.
  FlightRecorder(MpiSession& session, Signals& signals, const PhaseTracker& phases);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // Enables writing. Where another host's folder is not there on this one, it is created for the record; a folder that
  // was there and has been removed or replaced gets no record.
  void set_run_folder(const std::filesystem::path& folder);

  // Runs `work` and returns its result. Writes the record where `work` throws, and throws on.
  template <class Work>
  auto write_on_error(Work work) {
    try {
      return work();
    } catch (...) {
      write();
      throw;
    }
  }

 private:
  void write();

  MpiSession& session_;
  Signals& signals_;
  const PhaseTracker& phases_;
  std::mutex mutex_;
  std::filesystem::path folder_;
  std::optional<FileId> id_;  // of the folder; none: it was not on this host
  std::string error_;         // this rank's message; the output of a host that is cut off may be lost
};

}  // namespace ddp
