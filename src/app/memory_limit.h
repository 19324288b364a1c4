// How much memory the processes of this host may use together.
#pragma once

#include <cstdint>

namespace ddp {

// The limit of the control group, else the memory of the machine, in bytes.
int64_t memory_limit();

}  // namespace ddp
