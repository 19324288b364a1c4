// A trained network that rank 0 reads from its file, on all ranks.
#pragma once

#include "app/commands/predict/trained_network.h"
#include "comm/communicator.h"
#include "comm/mpi/session.h"
#include "core/log.h"

#include <functional>
#include <span>
#include <string>

namespace ddp {

struct SharedNetwork {
  std::string weights;  // path of the file
  ModelInfo info;
  TrainedNetwork trained;
};

// `given`, `average`: what find_weights() takes. `note`: as for read_trained_network(), on rank 0. Collective. Throws
// CollectiveError as model_info_of() and read_trained_network() do.
SharedNetwork share_trained_network(const std::string& given, bool average, const DescribedNetwork& described,
                                    MpiSession& session, Communicator& world, const Log& log,
                                    const std::function<void(const std::string&)>& note);

// Throws CollectiveError(Exit::communication) where ranks have other arguments than the others. Collective.
void require_same_arguments(std::span<const std::string> arguments, Communicator& world);

}  // namespace ddp
