#include "app/threads.h"

#include "app/doctor/system.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>
#include <vector>

namespace ddp {

int cores_within_limit(int cores, const std::string& cpu_max) {
  double quota = 0, period = 0;
  if (!(std::istringstream(cpu_max) >> quota >> period) || quota <= 0 || period <= 0) return cores;
  return std::clamp(static_cast<int>(std::ceil(std::min(quota / period, 1e6))), 1, cores);
}

int share_of_cores(int asked, int usable, int ranks) { return asked > 0 ? asked : std::max(1, usable / ranks); }

int choose_threads(int asked, Communicator& world, const std::string& host) {
  const std::vector<int> cores = doctor::cores_of_process();
  const int usable = cores_within_limit(std::max(1, static_cast<int>(cores.size())), doctor::cpu_limit_of_container());

  // A number for (host, cores), exact in a double; every rank's, by rank.
  const size_t place = std::hash<std::string>()(host + " " + doctor::list_of(cores));
  std::vector<double> places(world.size());
  places[world.rank()] = static_cast<double>(place % (size_t{1} << 53));
  world.sum_host(places);

  const auto sharing = static_cast<int>(std::count(places.begin(), places.end(), places[world.rank()]));
  return share_of_cores(asked, usable, sharing);
}

}  // namespace ddp
