// NCCL's settings: environment variables that NCCL reads once, at its first use.
#pragma once

#include "comm/nccl/communicator.h"

#include <map>
#include <string>

namespace ddp {

using NcclVariables = std::map<std::string, std::string>;

// The variables that `config` needs on this rank and that are not in `present`: a pure function. If a present variable
// has another value (case ignored) than config.ring or config.deterministic needs, throws Error(Exit::usage) that names
// variable and option. If it has another value than config.split or config.share_gpu needs, the present value wins.
NcclVariables nccl_variables_to_set(const NcclConfig& config, int rank, const NcclVariables& present);

// The environment variables of this process whose names start with NCCL_.
NcclVariables nccl_variables_of_process();

// For example "NCCL 2.28.9, NCCL_ALGO=Ring" for the version code 22809.
std::string describe_nccl(int version, const NcclVariables& present);

}  // namespace ddp
