// NCCL's own settings: variables of the environment, which it reads once, at its first use.
#pragma once

#include "comm/nccl/communicator.h"

#include <map>
#include <string>

namespace ddp {

using NcclVariables = std::map<std::string, std::string>;

// Those that `config` needs on this rank and that are not among the `present` ones: a pure decision. Throws
// Error(Exit::usage) that names both where one is present with another value than rings or determinism need; what
// sharing a GPU needs gives way.
NcclVariables nccl_variables_to_set(const NcclConfig& config, int rank, const NcclVariables& present);

// All variables of this process that start with NCCL_.
NcclVariables nccl_variables_of_process();

// "NCCL 2.28.9, NCCL_ALGO=Ring" for NCCL's code 22809.
std::string describe_nccl(int version, const NcclVariables& present);

}  // namespace ddp
