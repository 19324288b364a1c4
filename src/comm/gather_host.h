// A gather of host texts.
#pragma once

#include "comm/communicator.h"

#include <string>
#include <vector>

namespace ddp {

// The texts of all ranks, by rank, on every rank. For short texts. Collective and blocking.
std::vector<std::string> gather_host(Communicator& communicator, const std::string& mine);

}  // namespace ddp
