#include "app/commands/doctor/measure.h"
#include "comm/clock_offset.h"

#include <fmt/format.h>

#include <cmath>

namespace ddp::doctor {

std::vector<ClockOffset> measure_clocks(Communicator& world, const std::function<double()>& clock) {
  const RankClocks clocks = compare_clocks(world, [&] { return static_cast<int64_t>(1e9 * clock()); });
  std::vector<ClockOffset> offsets;
  for (const auto& [offset_ns, error_ns] : clocks.ranks)
    offsets.push_back({-1e-9 * static_cast<double>(offset_ns), 1e-9 * static_cast<double>(error_ns)});
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
