// A heartbeat table for ranks that are threads of one process, with simulated faults for tests.
#pragma once

#include "comm/heartbeat/heartbeat_table.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ddp {

// Simulated faults by rank, as the heartbeat tables report them. Any thread may set them at any time.
struct HeartbeatFaults {
  explicit HeartbeatFaults(int size) : dead(size), stopped(size), unreachable(size) {}
  std::vector<std::atomic<bool>> dead;
  std::vector<std::atomic<bool>> stopped;      // later heartbeats of the rank are lost, signs of life included
  std::vector<std::atomic<bool>> unreachable;  // other hosts get no more news of the rank
};

// Returns one heartbeat table for each rank. hosts[r] is the host name of rank r; empty: all ranks are on "local". The
// faults may be null and must outlive the heartbeat tables.
std::vector<std::unique_ptr<HeartbeatTable>> make_local_heartbeat_tables(int size, std::vector<std::string> hosts = {},
                                                                         HeartbeatFaults* faults = nullptr);

}  // namespace ddp
