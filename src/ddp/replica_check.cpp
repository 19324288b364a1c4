#include "ddp/replica_check.h"

#include "core/error.h"
#include "ddp/hash.h"

#include <fmt/ranges.h>

#include <bit>
#include <vector>

namespace ddp {
namespace {

struct NamedHash {
  std::string_view name;
  uint64_t hash;
};

// Every rank writes the halves of its hashes, exact in a double, where the others leave zeros; the sum is a table that
// all ranks read alike.
void compare(std::span<const NamedHash> mine, Communicator& communicator) {
  const int world = communicator.size();
  std::vector<double> table(mine.size() * world * 2);
  const auto cell = [&](size_t item, int rank) { return table.begin() + (item * world + rank) * 2; };
  for (size_t i = 0; i < mine.size(); ++i) {
    cell(i, communicator.rank())[0] = static_cast<double>(mine[i].hash >> 32);
    cell(i, communicator.rank())[1] = static_cast<double>(mine[i].hash & 0xffffffff);
  }
  communicator.sum_host(table);
  for (size_t i = 0; i < mine.size(); ++i) {
    std::vector<int> differ;
    for (int rank = 1; rank < world; ++rank)
      if (cell(i, rank)[0] != cell(i, 0)[0] || cell(i, rank)[1] != cell(i, 0)[1]) differ.push_back(rank);
    if (differ.empty()) continue;
    throw SharedError(Exit::communication,
                      fmt::format("{} is not the same on all ranks: rank {} differ{} from rank 0", mine[i].name,
                                  fmt::join(differ, ", "), differ.size() == 1 ? "s" : ""));
  }
}

uint64_t hash_of(std::span<const float> values) {
  Hash hash;
  for (const float value : values) hash.add(std::bit_cast<uint32_t>(value));
  return hash.value();
}

}  // namespace

void check_same_on_all_ranks(uint64_t hash, std::string_view what, Communicator& communicator) {
  const NamedHash mine{what, hash};
  compare({&mine, 1}, communicator);
}

void check_replicas(std::span<const NamedSpan> tensors, Communicator& communicator) {
  std::vector<NamedHash> hashes;
  for (const NamedSpan& tensor : tensors) hashes.push_back({tensor.name, hash_of(tensor.values)});
  compare(hashes, communicator);
}

}  // namespace ddp
