// What the ranks of one lane exchange between their hosts, as a state machine that never blocks.
#pragma once

#include "comm/collective.h"
#include "comm/shm/pieces.h"

#include <cstddef>
#include <cstdint>

namespace ddp {

class HostLink {
 public:
  virtual ~HostLink() = default;

  // Runs a collective on these pieces of `data`; each host has its own chunk. reduce_scatter leaves the sum of this
  // host's chunk, all_gather begins with it. `data` and `pieces` must stay until advance() has returned true.
  virtual void start(std::byte* data, const Pieces& pieces, Collective::Kind kind, DType dtype) = 0;
  // Sums all of `data` in as few messages as possible, with the same bits as start(). `offset`: see cut_blocks().
  virtual void start_small(std::byte* data, int64_t offset, int64_t bytes, DType dtype) = 0;

  virtual bool advance() = 0;            // true when done
  virtual int64_t messages() const = 0;  // complete ones; grows while the exchange moves
  virtual void abandon() = 0;            // leaves outstanding messages their memory
};

}  // namespace ddp
