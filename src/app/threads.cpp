#include "app/threads.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <sstream>
#include <string_view>
#include <vector>

namespace ddp {

int cores_within_limit(int cores, const std::string& cpu_max) {
  double quota = 0, period = 0;
  if (!(std::istringstream(cpu_max) >> quota >> period) || quota <= 0 || period <= 0) return cores;
  return std::clamp(static_cast<int>(std::ceil(std::min(quota / period, 1e6))), 1, cores);
}

Threads choose_threads(int asked, Communicator& world, const std::string& host) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  std::string cpu_max;
  std::getline(std::ifstream("/sys/fs/cgroup/cpu.max"), cpu_max);
  const int usable = cores_within_limit(std::max(1, CPU_COUNT(&cores)), cpu_max);

  // A number for (host, set of cores), exact in a double; every rank's, by rank.
  const std::string_view bits(reinterpret_cast<const char*>(&cores), sizeof cores);
  const size_t place = std::hash<std::string_view>()(bits) ^ (std::hash<std::string>()(host) * 31);
  std::vector<double> places(world.size());
  places[world.rank()] = static_cast<double>(place % (size_t{1} << 53));
  world.sum_host(places);

  Threads threads;
  const auto sharing = static_cast<int>(std::count(places.begin(), places.end(), places[world.rank()]));
  threads.count = asked > 0 ? asked : std::max(1, usable / sharing);
  if (world.rank() == 0 && sharing * threads.count > usable)
    threads.warning = fmt::format(
        "{} ranks with {} thread{} each share {} core{} of {}; fewer ranks, or mpirun --map-by slot:PE=1, will be "
        "faster",
        sharing, threads.count, threads.count == 1 ? "" : "s", usable, usable == 1 ? "" : "s", host);
  return threads;
}

}  // namespace ddp
