// Moving bytes between ranks. Every rank of a communicator makes the same calls in the same order; what differs between
// ranks is only when. Collectives are in place and always sum. A communicator belongs to one thread of its rank.
#pragma once

#include "core/dtype.h"
#include "device/memory.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace ddp {

// A span of device memory on the wire; it stays valid and untouched until the collective is waited for.
struct DeviceSpan {
  void* data = nullptr;
  int64_t count = 0;  // elements; 0 is legal
  DType dtype = DType::f32;

  static DeviceSpan of(std::span<float> s) { return {s.data(), static_cast<int64_t>(s.size()), DType::f32}; }
};

class Communicator {
 public:
  using Sequence = uint64_t;  // 1 for the first collective started here, then 2, 3, ...

  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Each starts after the device work issued so far, and returns at once. Collectives run in the order started, so one
  // may take a span that another has not been waited for.
  // Counts of reduce_scatter and all_gather are multiples of size(); rank r's part is the r-th of size() equal parts.
  virtual Sequence all_reduce(DeviceSpan span) = 0;
  virtual Sequence reduce_scatter(DeviceSpan span) = 0;  // afterwards this rank's part holds the sum, the rest anything
  virtual Sequence all_gather(DeviceSpan span) = 0;      // this rank's part is sent, the others are filled
  virtual Sequence broadcast(DeviceSpan span, int root) = 0;

  // Orders later device work after all collectives up to n, without blocking the host. (On the CPU host and device are
  // one: it returns when they are done.)
  virtual void wait(Sequence n) = 0;

  // Moves outstanding collectives forward; never blocks. Called by the computing thread between ops.
  virtual void progress() = 0;

  // Memory that collectives here are fastest on; null where any will do. It must be given back before this ends.
  virtual Memory* memory() { return nullptr; }

  // Whether collectives and wait() may be part of what a GraphCache runs.
  virtual bool capturable() const { return false; }

  // From any thread, which must end before this does: how many collectives of this rank are done, those of replayed
  // recordings included; and why none may ever be again, where the transport has failed.
  virtual Sequence completed() const = 0;
  virtual std::optional<std::string> failure() const { return std::nullopt; }

  // Blocking, on a few host numbers, apart from the sequence above.
  virtual void all_reduce_host(std::span<double> values) = 0;
  virtual void barrier() = 0;

  // A communicator of the ranks with the same colour, ordered by rank here. Collective over this one.
  virtual std::unique_ptr<Communicator> split(int colour) = 0;
};

}  // namespace ddp
