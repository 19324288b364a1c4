#include "app/commands/doctor/facts.h"

#include <nlohmann/json.hpp>

namespace ddp {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LibraryVersion, name, compiled, loaded)

namespace doctor {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Interface, name, up, addresses)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SharedMemory, folder, usable, bytes, free, per_rank)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HostFacts, cores, cpu_max, memory, locked_memory, rdma, container, nvidia_devices,
                                   interfaces)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GpuFacts, visible, why, name, bus_id, uuid, driver, libraries, out_of_reach)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankFacts, host, local_rank, threads, cores, environment, here, gpu)

// Replaces bytes that are not UTF-8, which a variable may have.
std::string to_text(const RankFacts& facts) {
  return nlohmann::json(facts).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

RankFacts facts_from(const std::string& text) { return nlohmann::json::parse(text).get<RankFacts>(); }

}  // namespace doctor
}  // namespace ddp
