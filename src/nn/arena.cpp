#include "nn/arena.h"

#include <algorithm>
#include <numeric>

namespace ddp {

Arena plan_arena(std::span<const Lifetime> values) {
  constexpr int64_t kAlign = 64;
  const auto rounded = [](int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; };

  std::vector<size_t> by_size(values.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return values[a].bytes > values[b].bytes; });

  Arena arena;
  arena.offsets.assign(values.size(), 0);
  std::vector<size_t> placed;  // ascending offset
  for (const size_t v : by_size) {
    int64_t offset = 0;
    for (const size_t other : placed) {
      const bool overlap = values[v].first <= values[other].last && values[other].first <= values[v].last;
      if (!overlap) continue;
      if (offset + rounded(values[v].bytes) <= arena.offsets[other]) break;
      offset = std::max(offset, arena.offsets[other] + rounded(values[other].bytes));
    }
    arena.offsets[v] = offset;
    arena.bytes = std::max(arena.bytes, offset + rounded(values[v].bytes));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset,
                                   [&](int64_t o, size_t p) { return o < arena.offsets[p]; }),
                  v);
  }
  return arena;
}

}  // namespace ddp
