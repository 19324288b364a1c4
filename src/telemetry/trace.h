// Records the spans of all ranks in some steps, and writes them to one file on one clock: rank 0's.
//
// A rank keeps its spans in memory. At each pause of the trainer, and at the end of the last step, the ranks compare
// their clocks, and rank 0 gets the spans and appends them to the file. Between two comparisons the offset of a clock
// changes evenly.
#pragma once

#include "comm/clock_offset.h"
#include "comm/communicator.h"
#include "telemetry/trace_file.h"
#include "train/observers/run_trace.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddp {

struct TraceSteps {
  int64_t first = 11, last = 30;  // from 1
};

struct TraceConfig {
  TraceSteps steps;
  size_t spans = 200'000;  // the most of a rank; later ones are counted only
};

class Trace final : public RunTrace {
 public:
  // The texts of all ranks, by rank, on every rank: MpiSession::gather(). Only rank 0 needs them. Collective.
  using Gather = std::function<std::vector<std::string>(const std::string& mine)>;

  // `ranks`: of host memory, over all ranks; outlives the trace. `file`: of rank 0; none on other ranks.
  Trace(const TraceConfig& config, Communicator& ranks, Gather gather, std::unique_ptr<TraceFile> file);

  bool on() const noexcept override { return on_.load(std::memory_order_relaxed); }
  void record(const Span& span) noexcept override;  // a span that began before the trace is left out
  bool pauses_after(int64_t step) const override {
    return step == config_.steps.first - 1 || step == config_.steps.last;
  }
  std::optional<StepTimeline> paused(int64_t step, bool run_ends) override;

  // Ends a successful run. Throws Error(Exit::output) where the file is not complete.
  void close() {
    if (file_) file_->close();
  }

  int64_t recorded() const { return recorded_; }        // rank 0: spans in the file
  TraceSteps steps() const { return recorded_steps_; }  // rank 0: of these spans
  int64_t dropped() const { return dropped_; }          // rank 0: spans of all ranks that were only counted

 private:
  void begin();
  void collect();
  int64_t compare();  // the clocks; returns rank 0's
  int64_t on_rank0_clock(int64_t ns) const;

  const TraceConfig config_;
  Communicator& ranks_;
  const Gather gather_;
  const std::unique_ptr<TraceFile> file_;

  std::atomic<bool> on_ = false;
  std::mutex mutex_;  // guards the next four
  std::vector<Span> spans_;
  size_t kept_ = 0;       // spans of this rank that were recorded
  int64_t begin_ns_ = 0;  // of the trace, on this rank's clock
  int64_t left_out_ = 0;  // spans of this rank

  struct Offset {
    int64_t at_ns, offset_ns;  // on this rank's clock; what to add to it to get rank 0's
  };
  std::vector<Offset> offsets_;  // one for each comparison
  int64_t zero_ns_ = 0;          // begin of the trace on rank 0's clock
  int64_t recorded_ = 0, dropped_ = 0;
  TraceSteps recorded_steps_{.first = std::numeric_limits<int64_t>::max(), .last = 0};
  std::set<std::string> names_;
  std::vector<std::vector<Span>> shown_;  // rank 0: spans for the timeline, by rank
};

}  // namespace ddp
