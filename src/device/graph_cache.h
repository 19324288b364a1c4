// Runs repeated work. A device that can capture graphs launches the captured graph instead of issuing the work again.
#pragma once

#include <cstdint>
#include <functional>

namespace ddp {

// The key of a piece of work: its kind and its size. Work with collectives has the same key on all ranks, so its size
// is the size of the global batch.
struct GraphKey {
  int kind = 0;
  int64_t size = 0;
  friend auto operator<=>(const GraphKey&, const GraphKey&) = default;
};

class GraphCache {
 public:
  virtual ~GraphCache() = default;

  // Issues `work` to the device. Work with the same key must be the same work on the same memory in every call, without
  // host copies, allocations or waits: only the first calls run `work`, later calls may launch its graph. If the work
  // has collectives, all ranks make the same calls with the same keys in the same order, and the communicator must
  // outlive the cache.
  virtual void run(GraphKey key, const std::function<void()>& work) = 0;
};

}  // namespace ddp
