// A trace in the trace-event format of Chrome, which Perfetto reads: a JSON array of events, one in a line. Each rank
// is a process; each lane of a track is a thread of it. The array of a run that was killed has no end, as the format
// allows.
#pragma once

#include "core/span_recorder.h"

#include <cstdio>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <utility>

namespace ddp {

class TraceFile {
 public:
  // Replaces the file. Throws Error(Exit::output) where it cannot be created.
  TraceFile(std::filesystem::path path, std::span<const std::string> hosts);  // hosts by rank
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // Appends spans of a rank; times in ns from the begin of the trace on one clock. If a write fails, warns once, and
  // the rest of the trace is lost.
  void append(int rank, std::span<const Span> spans);
  void flush();
  void close();  // ends the array

  const std::filesystem::path& path() const { return path_; }

 private:
  void write(const std::string& text);
  void give_up();

  const std::filesystem::path path_;
  std::FILE* file_ = nullptr;            // null: closed, or a write has failed
  std::set<std::pair<int, int>> lanes_;  // (rank, thread) that have a name
};

}  // namespace ddp
