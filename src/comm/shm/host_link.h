// What the ranks of one lane exchange between their hosts, as a state machine that never blocks.
#pragma once

#include "comm/collective.h"
#include "comm/shm/pieces.h"

#include <cstddef>
#include <cstdint>

namespace ddp {

// What a rank does on its host with a piece of its lane. The link calls these functions for one piece at a time: a
// piece that it sends is still in the cache, and while the piece travels, the rank sums the next one.
class HostPieces {
 public:
  virtual ~HostPieces() = default;
  // Makes the value of this host in the memory of the calling rank: the sum over the ranks of the host, or, in an
  // all_gather, a copy of the owner's part.
  virtual void collect(const Piece& piece) = 0;
  // Copies the final value from the memory of the calling rank to each rank of the host that gets it.
  virtual void spread(const Piece& piece) = 0;
};

class HostLink {
 public:
  virtual ~HostLink() = default;

  // Runs a collective on these pieces of `data`, the memory of the calling rank; each host has its own chunk.
  // reduce_scatter leaves the sum of this host's chunk, all_gather begins with it. start() and advance() call
  // host.collect() once for each piece that they read: all pieces of a sum, this host's chunk in an all_gather. They
  // call host.spread() once for each final piece: this host's chunk in a reduce_scatter, otherwise all pieces. Both get
  // empty pieces too. `residual`: as DeviceSpan::residual, of `data`. All memory must stay until advance() has returned
  // true.
  virtual void start(std::byte* data, const Residual& residual, const Pieces& pieces, Collective::Kind kind,
                     DType dtype, HostPieces& host) = 0;
  // Sums all of `data` in as few messages as possible, with the same bits as start(). `offset`: see cut_blocks().
  virtual void start_small(std::byte* data, int64_t offset, int64_t bytes, DType dtype) = 0;

  virtual bool advance() = 0;            // true when done
  virtual int64_t messages() const = 0;  // complete ones; grows while the exchange moves
  virtual void abandon() = 0;            // leaves outstanding messages their memory
};

}  // namespace ddp
