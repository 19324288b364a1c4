// Makes device, ops and transport from their configs. In a run, only this file chooses between backends; the
// doctor also asks them for facts and measures on a CPU device.
#pragma once

#include "app/machine/autotune_cache.h"
#include "app/machine/device_config.h"
#include "app/machine/engine_file.h"
#include "comm/communicator.h"
#include "device/device.h"
#include "ops/ops.h"

#include <map>
#include <memory>
#include <string>

namespace ddp {

struct Backend {
  std::unique_ptr<Device> device;
  std::string description;  // for the banner: GPU, driver and libraries; CPU: the reason to use it
  std::string arithmetic;   // for the banner: precision and modes; empty: a CPU's default
  std::string compiling;    // what to say before the first kernel: CudaDeviceInfo::compiling
  Identity identity;        // entries of RunState::affects_rounding
  DeviceConfig config;      // the requested config with the device's defaults filled in
  TransportConfig transport;
};

// The kind of device that make_backend() will choose: cpu or cuda. Collective. Throws CollectiveError: Exit::device.
DeviceKind device_in_use(DeviceKind asked, MpiSession& session);

// Makes the device of this rank. Collective. Throws CollectiveError: Exit::device if this machine or this build lacks
// the requested device, Exit::usage if an option does not fit the device.
Backend make_backend(const DeviceConfig& config, const TransportConfig& transport, MpiSession& session);

// `host` and `autotune` outlive the result.
std::unique_ptr<Ops> make_ops(const Backend& backend, Communicator& host, int threads, AutotuneCache& autotune,
                              const MeasuredEngines& known = {});

// Ops for models that are built and never run, on a device of the backend's kind: they time no engine, and do not ask
// other ranks.
std::unique_ptr<Ops> make_planning_ops(const Backend& backend, Device& device, int threads);

// Returns null for a CPU: `host`, which is over MPI, then serves the device itself. Collective. A failure to connect on
// one rank ends the job. `batch_norms`: whether a replica with batch norms will use it, which splits it.
std::unique_ptr<Communicator> make_transport(const Backend& backend, MpiSession& session, Communicator& host,
                                             bool batch_norms);

// This rank's transport for the banner. On a CPU: the algorithm of `communicator`. With NCCL: its version and every
// NCCL_ variable that the user or this program has set.
std::string describe_transport(const Backend& backend, const Communicator& communicator);

}  // namespace ddp
