// Collectives between ranks. Every rank of a communicator makes the same calls in the same order; only the times of the
// calls differ. Collectives are in place; every reduction is a sum. A communicator belongs to one thread of its rank.
#pragma once

#include "comm/int8.h"
#include "core/dtype.h"
#include "device/memory.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace ddp {

// Device memory of a collective. It must stay valid and untouched until the caller has waited for the collective.
struct DeviceSpan {
  void* data = nullptr;
  int64_t count = 0;  // elements; 0 is legal
  DType dtype = DType::f32;
  // Of the `count` values, for all_reduce and reduce_scatter of f32: then the sum travels between hosts in int8
  // (comm/int8.h). Given by all ranks or by none. It must stay as `data` does. On one host it is ignored.
  Residual residual = {};

  static DeviceSpan of(std::span<float> s) { return {s.data(), static_cast<int64_t>(s.size()), DType::f32}; }
};

// The host of a rank, among the hosts between which sums in int8 travel. Where ranks do not share memory, as with
// --allreduce ring, each rank counts as a host.
struct HostPlace {
  int host = 0, hosts = 1;
};

class Communicator {
 public:
  using Sequence = uint64_t;  // number of a collective: 1 for the first of this communicator, then 2, 3, ...

  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Each call starts a collective after the device work issued so far and returns at once. Collectives run in the order
  // of their start: a collective may take the span of an earlier one before the caller has waited for that.
  // reduce_scatter and all_gather divide the span into size() equal parts; rank r has part r. So size() divides count.
  virtual Sequence all_reduce(DeviceSpan span) = 0;
  virtual Sequence reduce_scatter(DeviceSpan span) = 0;  // result: the sum in this rank's part; other parts undefined
  virtual Sequence all_gather(DeviceSpan span) = 0;      // sends this rank's part, fills the parts of the other ranks
  virtual Sequence broadcast(DeviceSpan span, int root) = 0;

  // Orders later device work after all collectives up to n, without blocking the host. On the CPU, host and device are
  // one: the call returns when the collectives are done.
  virtual void wait(Sequence n) = 0;

  // Advances outstanding collectives; never blocks. The computing thread calls this between ops
  // (Device::poll).
  virtual void progress() = 0;

  // Whether a collective of one rank alone copies: wait() then writes what the span held at the start. If false, the
  // span may change between the two.
  virtual bool copies() const { return false; }

  // The source of memory on which these collectives are fastest; null: any memory is as fast. To allocate is
  // collective: all ranks allocate in the same order. The spans of a collective begin at the same offset of such memory
  // on all ranks, or lie outside of it on all ranks. Release the memory before the communicator is destroyed.
  virtual Memory* memory() { return nullptr; }

  // The algorithms in use, for the banner. order_of_terms(): equal in two runs whose sums add in the same order. Both
  // are empty with one rank, and where the transport chooses; equal on all ranks.
  virtual std::string description() const { return ""; }
  virtual std::string order_of_terms() const { return ""; }

  // Whether DeviceSpan::residual may be given.
  virtual bool sums_in_int8() const { return false; }
  virtual HostPlace place() const { return {}; }

  // Whether the work of a GraphCache may contain collectives and wait().
  virtual bool capturable() const { return false; }

  // Any thread may call these; that thread must end before the communicator is destroyed. completed(): how many
  // collectives of this rank are done, those of replayed graphs included. failure(): why no collective can complete any
  // more; nullopt unless the transport has failed.
  virtual Sequence completed() const = 0;
  virtual std::optional<std::string> failure() const { return std::nullopt; }

  // The clock when collective n was done, in ns; nullopt if n is not among the last kDoneTimes, was done before
  // record_done_times(), or the transport keeps no times. The clock is that of Device::timestamp() where
  // done_on_device_clock(), else the host's steady clock. Only the thread of the collectives may call these.
  static constexpr Sequence kDoneTimes = 512;
  virtual void record_done_times() {}
  virtual std::optional<int64_t> done_ns(Sequence) const { return std::nullopt; }
  virtual bool done_on_device_clock() const { return false; }

  // Blocking collectives on a few host numbers; they do not count in the sequence above.
  virtual void all_reduce_host(std::span<double> values) = 0;
  virtual void barrier() = 0;

  // Whether `mine` is true on any rank. Blocking, as the two above.
  bool any(bool mine) {
    double sum = mine ? 1 : 0;
    all_reduce_host({&sum, 1});
    return sum > 0;
  }

  // Returns a communicator of the ranks with the same colour, in their order here. Collective over this communicator.
  virtual std::unique_ptr<Communicator> split(int colour) = 0;
};

}  // namespace ddp
