#include "app/doctor/measure.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace ddp::doctor {

// Each rank reads its clock between a barrier and an allreduce, so after rank 0 has entered the barrier and before rank
// 0 has left the allreduce. At that moment rank 0's clock was between its own two readings. The shortest round gives
// the smallest uncertainty.
std::vector<ClockOffset> measure_clocks(Communicator& world, const std::function<double()>& clock) {
  constexpr int kRounds = 20;
  const auto size = static_cast<size_t>(world.size());
  std::vector<ClockOffset> offsets(size, {0, std::numeric_limits<double>::infinity()});
  std::vector<double> readings;
  for (int round = 0; round < kRounds; ++round) {
    const double begin = clock();
    world.barrier();
    readings.assign(size, 0);
    readings[world.rank()] = clock();
    world.all_reduce_host(readings);
    std::vector<double> mine{world.rank() == 0 ? begin : 0, world.rank() == 0 ? clock() : 0};
    world.all_reduce_host(mine);
    const double middle = (mine[0] + mine[1]) / 2, half = (mine[1] - mine[0]) / 2;
    for (size_t rank = 0; rank < size; ++rank)
      if (half < offsets[rank].uncertainty) offsets[rank] = {readings[rank] - middle, half};
  }
  offsets[0] = {};
  return offsets;
}

Findings check_clocks(const std::vector<ClockOffset>& offsets, const std::vector<std::string>& hosts) {
  constexpr double kMaxOffset = 1;  // second
  Findings problems;
  std::string found = "one host";
  double largest = -1;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    bool known = false;
    for (size_t r = 0; r < rank; ++r) known |= hosts[r] == hosts[rank];
    if (known || hosts[rank] == hosts[0]) continue;
    const auto& [seconds, uncertainty] = offsets[rank];
    const std::string offset =
        fmt::format("{} is {:+.3f} s (+- {:.3f}) off {}", hosts[rank], seconds, uncertainty, hosts[0]);
    if (std::abs(seconds) > largest) found = offset;
    largest = std::max(largest, std::abs(seconds));
    if (std::abs(seconds) - uncertainty > kMaxOffset)
      problems.push_back(warn(offset + ": times in logs and files are not comparable",
                              fmt::format("ssh {} chronyc makestep", hosts[rank])));
  }
  return with_found(std::move(problems), "clocks", std::move(found));
}

}  // namespace ddp::doctor
