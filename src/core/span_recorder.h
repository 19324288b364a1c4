// Receives spans of a rank's work, for a trace. Any thread may call it.
#pragma once

#include <cstdint>

namespace ddp {

enum class Track : uint8_t {
  step,     // phases of the training thread; number: step
  layers,   // work of the device; number: step
  buckets,  // from ready to done; lane: bucket; number: step
  loader,  // lane: thread; number: sample of the data set, or batch of the run from 0 if one thread reads whole batches
  checkpoint  // the writer's thread; number: step
};

constexpr const char* name_of(Track track) {
  switch (track) {
    case Track::step: return "step";
    case Track::layers: return "layers";
    case Track::buckets: return "buckets";
    case Track::loader: return "loader";
    case Track::checkpoint: return "checkpoint";
  }
  return "unknown";
}

struct Span {
  Track track = Track::step;
  int lane = 0;
  const char* name = "";             // valid until the end of the run
  int64_t begin_ns = 0, end_ns = 0;  // steady clock of this host
  int64_t number = 0;
};

class SpanRecorder {
 public:
  virtual ~SpanRecorder() = default;
  virtual bool on() const noexcept = 0;                // while false, callers read no clock and record nothing
  virtual void record(const Span& span) noexcept = 0;  // does not allocate
};

}  // namespace ddp
