// A heartbeat table of ranks that are threads of one process, with faults for tests.
#pragma once

#include "comm/heartbeat_table.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ddp {

// What has happened to ranks, as their heartbeat tables tell it. May be changed at any time, from any thread.
struct HeartbeatFaults {
  explicit HeartbeatFaults(int size) : dead(size), stopped(size), unreachable(size) {}
  std::vector<std::atomic<bool>> dead;
  std::vector<std::atomic<bool>> stopped;      // what the rank says from now on, signs of life included, is lost
  std::vector<std::atomic<bool>> unreachable;  // other hosts hear no news of this rank from now on
};

// One heartbeat table for each rank, on hosts of these names, one for each rank; none: all on "local". The faults,
// which may be null, outlive the heartbeat tables.
std::vector<std::unique_ptr<HeartbeatTable>> make_local_heartbeat_tables(int size, std::vector<std::string> hosts = {},
                                                                         HeartbeatFaults* faults = nullptr);

}  // namespace ddp
