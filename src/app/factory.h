// The only place that knows which device, ops and transport a name stands for.
#pragma once

#include "app/autotune_cache.h"
#include "app/options.h"
#include "comm/communicator.h"
#include "device/device.h"
#include "ops/ops.h"

#include <memory>
#include <string>

namespace ddp {

struct Backend {
  std::unique_ptr<Device> device;
  std::string description;  // of the device and its driver, for the banner
  std::string libraries;    // that choose algorithms, with their versions; empty: none do
  std::string precision;
};

// The device of this rank. Collective. Throws CollectiveError: Exit::device where --device names what this machine or
// this build does not have, Exit::usage where an option does not go with the device.
Backend make_backend(const Options& options, MpiSession& session);

// `host` and `autotune` outlive the result.
std::unique_ptr<Ops> make_ops(const Options& options, const Backend& backend, Communicator& host, int threads,
                              AutotuneCache& autotune);

// Null where `host`, over MPI, serves the device itself. Collective; an error of one rank ends the job.
std::unique_ptr<Communicator> make_transport(const Options& options, const Backend& backend, MpiSession& session,
                                             Communicator& host);

// Of this rank, for the banner: NCCL's version and every NCCL_ variable that is set, by the user or by us.
std::string describe_transport(const Options& options, const Backend& backend);

}  // namespace ddp
