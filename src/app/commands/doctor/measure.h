// Measurements: clocks, the output folder and allreduces. A function measures; a separate pure function judges the
// result.
#pragma once

#include "app/commands/doctor/finding.h"
#include "comm/communicator.h"
#include "device/device.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace ddp::doctor {

struct ClockOffset {
  double seconds = 0;      // offset ahead of rank 0's clock
  double uncertainty = 0;  // largest error of `seconds`
};

// Returns the offsets by rank, on all ranks. `clock`: seconds since an epoch that all hosts share. Collective.
std::vector<ClockOffset> measure_clocks(Communicator& world, const std::function<double()>& clock);
Findings check_clocks(const std::vector<ClockOffset>& offsets, const std::vector<std::string>& hosts);

struct OutputTrial {
  std::filesystem::path folder;
  std::string error;            // the reason why it cannot be written; empty: it can
  double bytes_per_second = 0;  // write speed with a flush to the disk
  int64_t free = 0;             // free bytes
};

// Writes 4 MiB into the folder, flushes them and removes the file. Creates missing folders and removes them again.
OutputTrial try_output(const std::filesystem::path& folder);
Findings check_output(const OutputTrial& trial);

struct AllreduceTrial {
  int ranks = 1;
  double latency = 0;            // median time of an allreduce of one float, in s
  double bus_bandwidth = 0;      // bytes/s of an allreduce of `bytes`; see bus_bandwidth()
  int64_t bytes = 0;             // size of that allreduce
  int wrong_rank = -1;           // the lowest rank with a wrong sum; -1: none
  double expected = 0, got = 0;  // the first wrong sum on that rank
};

// Checks an allreduce of whole numbers for exact sums, then measures times. Collective.
AllreduceTrial try_allreduce(Device& device, Communicator& transport);

// Bus bandwidth is 2(n-1)/n times bytes over time, as nccl-tests' doc/PERFORMANCE.md defines it.
double bus_bandwidth(int64_t bytes, double seconds, int ranks);
// `transport`: its name in the texts. `fix`: the line that selects another transport.
Findings check_allreduce(const AllreduceTrial& trial, const std::string& transport, const std::string& fix);

}  // namespace ddp::doctor
