// What only a trial shows: clocks, the output folder, and sums over all ranks. The functions that measure are thin;
// what follows from the figures is decided apart.
#pragma once

#include "app/doctor/finding.h"
#include "comm/communicator.h"
#include "device/device.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace ddp::doctor {

struct ClockOffset {
  double seconds = 0;      // ahead of rank 0's clock
  double uncertainty = 0;  // at most so many more or fewer
};

// By rank, on all ranks. `clock`: seconds since some time that all clocks mean. Collective.
std::vector<ClockOffset> measure_clocks(Communicator& world, const std::function<double()>& clock);
double clock_of_host();
Findings check_clocks(const std::vector<ClockOffset>& offsets, const std::vector<std::string>& hosts);

struct OutputTrial {
  std::filesystem::path folder;
  std::string error;            // why it cannot be written; empty: it can
  double bytes_per_second = 0;  // flushed to the disk
  int64_t free = 0;             // bytes
};

// Writes some MiB into the folder, flushes and removes them; makes the folder, and those above it, where they are
// missing, and removes them too.
OutputTrial try_output(const std::filesystem::path& folder);
Findings check_output(const OutputTrial& trial);

struct AllreduceTrial {
  int ranks = 1;
  double latency = 0;            // seconds, of one float
  double bus_bandwidth = 0;      // bytes a second; see bus_bandwidth()
  int64_t bytes = 0;             // for which
  int wrong_rank = -1;           // the first that got a wrong sum; -1: none
  double expected = 0, got = 0;  // by it
};

// Sums whole numbers and compares them exactly, then takes the times. Collective.
AllreduceTrial try_allreduce(Device& device, Communicator& transport);

// Bus bandwidth is 2(n-1)/n times bytes over time, as nccl-tests' doc/PERFORMANCE.md defines it.
double bus_bandwidth(int64_t bytes, double seconds, int ranks);
// `fix`: the line that takes another transport.
Findings check_allreduce(const AllreduceTrial& trial, const std::string& transport, const std::string& fix);

}  // namespace ddp::doctor
