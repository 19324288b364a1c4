#include "comm/broadcast_host.h"

#include <bit>
#include <vector>

namespace ddp {

// A sum to which only rank 0 adds. Halves of 32 bits are exact in a double.
void broadcast_host(Communicator& communicator, std::span<int64_t> values) {
  std::vector<double> halves(2 * values.size());
  if (communicator.rank() == 0)
    for (size_t i = 0; i < values.size(); ++i) {
      const auto bits = std::bit_cast<uint64_t>(values[i]);
      halves[2 * i] = static_cast<double>(bits >> 32);
      halves[2 * i + 1] = static_cast<double>(bits & 0xffffffff);
    }
  communicator.sum_host(halves);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] =
        std::bit_cast<int64_t>(static_cast<uint64_t>(halves[2 * i]) << 32 | static_cast<uint64_t>(halves[2 * i + 1]));
}

}  // namespace ddp
