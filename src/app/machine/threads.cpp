#include "app/machine/threads.h"

#include "app/machine/cores.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace ddp {

int choose_threads(int asked, Communicator& world, const std::string& host) {
  const std::vector<int> cores = cores_of_process();
  const int usable = cores_within_limit(std::max(1, static_cast<int>(cores.size())), cpu_limit_of_container());

  // Each rank's hash of (host, cores), exact in a double, by rank.
  const size_t place = std::hash<std::string>()(host + " " + list_of(cores));
  std::vector<double> places(world.size());
  places[world.rank()] = static_cast<double>(place % (size_t{1} << 53));
  world.all_reduce_host(places);

  const auto sharing = static_cast<int>(std::count(places.begin(), places.end(), places[world.rank()]));
  return share_of_cores(asked, usable, sharing);
}

int choose_workers(int asked, Communicator& world, const std::string& host) {
  constexpr int kMost = 16;
  const int threads = choose_threads(asked, world, host);
  return asked > 0 ? threads : std::min(threads, kMost);
}

}  // namespace ddp
