#include "ddp/replica_check.h"

#include "core/error.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

namespace ddp {
namespace {

// Returns the ranks that differ from the majority; empty without a majority.
std::vector<int> minority(std::span<const uint64_t> hashes) {
  const auto has = [&](uint64_t hash) { return std::count(hashes.begin(), hashes.end(), hash); };
  const auto most =
      std::max_element(hashes.begin(), hashes.end(), [&](uint64_t a, uint64_t b) { return has(a) < has(b); });
  std::vector<int> ranks;
  if (2 * has(*most) <= std::ssize(hashes)) return ranks;
  for (int rank = 0; rank < std::ssize(hashes); ++rank)
    if (hashes[rank] != *most) ranks.push_back(rank);
  return ranks;
}

std::string difference(std::string_view name, std::span<const uint64_t> hashes) {
  const std::vector<int> ranks = minority(hashes);
  const std::string who = ranks.empty() ? ""
                                        : fmt::format(": rank {} differ{} from the others", fmt::join(ranks, ", "),
                                                      ranks.size() == 1 ? "s" : "");
  return fmt::format("{} is not the same on all ranks{} (hashes by rank: {:016x})", name, who, fmt::join(hashes, ", "));
}

}  // namespace

// Each rank writes the 32-bit halves of its hashes, which a double holds exactly, to its own cells and leaves the cells
// of other ranks 0. The sum is the table of all hashes, equal on all ranks.
void check_same_on_all_ranks(std::span<const NamedHash> mine, Communicator& communicator) {
  const int world = communicator.size();
  std::vector<double> table(mine.size() * world * 2);
  const auto cell = [&](size_t item, int rank) { return table.begin() + (item * world + rank) * 2; };
  for (size_t i = 0; i < mine.size(); ++i) {
    cell(i, communicator.rank())[0] = static_cast<double>(mine[i].hash >> 32);
    cell(i, communicator.rank())[1] = static_cast<double>(mine[i].hash & 0xffffffff);
  }
  communicator.all_reduce_host(table);
  std::vector<uint64_t> hashes(world);
  for (size_t i = 0; i < mine.size(); ++i) {
    for (int rank = 0; rank < world; ++rank)
      hashes[rank] = static_cast<uint64_t>(cell(i, rank)[0]) << 32 | static_cast<uint64_t>(cell(i, rank)[1]);
    if (std::equal(hashes.begin() + 1, hashes.end(), hashes.begin())) continue;
    throw CollectiveError(Exit::communication, difference(mine[i].name, hashes));
  }
}

void check_same_on_all_ranks(uint64_t hash, std::string_view what, Communicator& communicator) {
  const NamedHash mine{what, hash};
  check_same_on_all_ranks({&mine, 1}, communicator);
}

}  // namespace ddp
