// A trace in the trace-event format of Chrome, which Perfetto reads: a JSON array of events, one in a line. Each rank
// is a process; each lane of a track is a thread of it. The array of a run that was killed has no end, as the format
// allows.
#pragma once

#include "core/span_recorder.h"
#include "telemetry/growing_file.h"

#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <utility>

namespace ddp {

class TraceFile {
 public:
  // Replaces the file. Throws Error(Exit::output) where it cannot be created.
  TraceFile(const std::filesystem::path& path, std::span<const std::string> hosts);  // hosts by rank

  // Appends spans of a rank; times in ns from the begin of the trace on one clock.
  void append(int rank, std::span<const Span> spans);
  void flush() { file_.flush(); }
  void end();    // of the array: no more spans follow
  void close();  // after end(), unless that was called; throws Error(Exit::output) where the file is not complete

 private:
  GrowingFile file_;
  bool ended_ = false;
  std::set<std::pair<int, int>> lanes_;  // (rank, thread) that have a name
};

}  // namespace ddp
