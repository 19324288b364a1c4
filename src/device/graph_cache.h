// Repeats work. A device that can record it replays the recording in place of issuing it again.
#pragma once

#include <cstdint>
#include <functional>

namespace ddp {

// What tells one kind of work from another: what it does, and to how much. For work with collectives both are the same
// on all ranks, so the size is that of the global batch.
struct GraphKey {
  int kind = 0;
  int64_t size = 0;
  friend auto operator<=>(const GraphKey&, const GraphKey&) = default;
};

class GraphCache {
 public:
  virtual ~GraphCache() = default;

  // Issues `work` to the device. Under one key it must be the same work on the same memory every time, with neither
  // copies from or to the host, nor allocations, nor waits; then only the first calls run it. Where it has collectives,
  // all ranks make the same calls with the same keys in the same order, and the graph cache ends before the
  // communicator.
  virtual void run(GraphKey key, const std::function<void()>& work) = 0;
};

}  // namespace ddp
