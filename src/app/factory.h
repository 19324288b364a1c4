// The only place that knows which device, ops and transport a name stands for.
#pragma once

#include "app/autotune_cache.h"
#include "app/device_config.h"
#include "comm/communicator.h"
#include "device/device.h"
#include "ops/ops.h"

#include <map>
#include <memory>
#include <string>

namespace ddp {

struct Backend {
  std::unique_ptr<Device> device;
  std::string description;                      // of the device and its driver, for the banner
  std::string arithmetic;                       // for the banner, where it is not the default of a CPU
  std::map<std::string, std::string> identity;  // entries of the run state that are equal where bits are equal
  DeviceConfig config;                          // as asked for, defaults of the device filled in
  TransportConfig transport;
};

// The device of this rank. Collective. Throws CollectiveError: Exit::device where this machine or this build lacks the
// device that was asked for, Exit::usage where an option does not fit the device.
Backend make_backend(const DeviceConfig& config, const TransportConfig& transport, MpiSession& session);

// `host` and `autotune` outlive the result.
std::unique_ptr<Ops> make_ops(const Backend& backend, Communicator& host, int threads, AutotuneCache& autotune);

// Null where `host`, over MPI, serves the device itself. Collective; an error of one rank ends the job.
std::unique_ptr<Communicator> make_transport(const Backend& backend, MpiSession& session, Communicator& host);

// Of this rank, for the banner: NCCL's version and every NCCL_ variable that is set, by the user or by us.
std::string describe_transport(const Backend& backend);

}  // namespace ddp
