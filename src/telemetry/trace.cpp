#include "telemetry/trace.h"

#include "core/stopwatch.h"
#include "telemetry/packed_spans.h"
#include "telemetry/typical_step.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <utility>

namespace ddp {

Trace::Trace(const TraceConfig& config, Communicator& ranks, Gather gather, std::unique_ptr<TraceFile> file)
    : config_(config), ranks_(ranks), gather_(std::move(gather)), file_(std::move(file)), shown_(ranks.size()) {}

void Trace::record(const Span& span) noexcept {
  const std::lock_guard lock(mutex_);
  if (span.begin_ns < begin_ns_ || !on()) return;
  if (kept_ == config_.spans) {
    ++left_out_;
    return;
  }
  ++kept_;
  spans_.push_back(span);
}

std::optional<StepTimeline> Trace::paused(int64_t step, bool run_ends) {
  if (on()) {
    const bool last = run_ends || step >= config_.steps.last;
    collect();
    if (!last) return std::nullopt;
    double left_out = 0;
    {
      const std::lock_guard lock(mutex_);
      on_ = false;
      left_out = static_cast<double>(left_out_);
    }
    ranks_.all_reduce_host({&left_out, 1});
    dropped_ = static_cast<int64_t>(left_out);
    if (file_) file_->end();
    return file_ ? typical_step(shown_) : std::nullopt;
  }
  if (!run_ends && step + 1 >= config_.steps.first && step < config_.steps.last) begin();
  return std::nullopt;
}

void Trace::begin() {
  zero_ns_ = compare();
  const std::lock_guard lock(mutex_);
  spans_.reserve(config_.spans);
  begin_ns_ = steady_ns();
  on_ = true;
}

// The ranks send their spans in pieces, so that all pieces of a round fit into memory.
void Trace::collect() {
  compare();
  std::vector<Span> spans;
  {
    const std::lock_guard lock(mutex_);
    spans.assign(spans_.begin(), spans_.end());
    spans_.clear();
  }
  for (Span& span : spans) {
    span.begin_ns = on_rank0_clock(span.begin_ns) - zero_ns_;
    span.end_ns = on_rank0_clock(span.end_ns) - zero_ns_;
  }

  constexpr size_t kRound = 1'000'000, kLeast = 1024;  // spans
  const size_t piece = std::max(kLeast, kRound / static_cast<size_t>(ranks_.size()));
  size_t sent = 0;
  do {
    const size_t count = std::min(piece, spans.size() - sent);
    const std::vector<std::string> packed = gather_(pack(std::span(spans).subspan(sent, count)));
    sent += count;
    for (int rank = 0; file_ && rank < ranks_.size(); ++rank) {
      const std::vector<Span> of_rank = unpack(packed[rank], names_);
      file_->append(rank, of_rank);
      recorded_ += std::ssize(of_rank);
      for (const Span& span : of_rank) {
        if (!in_timeline(span)) continue;
        shown_[rank].push_back(span);
        recorded_steps_.first = std::min(recorded_steps_.first, span.number);
        recorded_steps_.last = std::max(recorded_steps_.last, span.number);
      }
    }
  } while (ranks_.any(sent < spans.size()));
  if (file_) file_->flush();
}

int64_t Trace::compare() {
  const RankClocks clocks = compare_clocks(ranks_);
  offsets_.push_back({.at_ns = steady_ns(), .offset_ns = clocks.ranks[ranks_.rank()].offset_ns});
  return clocks.rank0_ns;
}

// The offset changes evenly between two comparisons, so that spans keep their order.
int64_t Trace::on_rank0_clock(int64_t ns) const {
  const auto later = std::ranges::upper_bound(offsets_, ns, {}, &Offset::at_ns);
  if (later == offsets_.begin()) return ns + offsets_.front().offset_ns;
  if (later == offsets_.end()) return ns + offsets_.back().offset_ns;
  const Offset& before = *std::prev(later);
  const double share = static_cast<double>(ns - before.at_ns) / static_cast<double>(later->at_ns - before.at_ns);
  return ns + before.offset_ns +
         static_cast<int64_t>(std::floor(share * static_cast<double>(later->offset_ns - before.offset_ns)));
}

}  // namespace ddp
