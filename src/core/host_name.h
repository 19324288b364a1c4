#pragma once

#include <string>

namespace ddp {

// The name of this host, as `hostname` prints it. "unknown" where the system gives no name.
std::string host_name();

}  // namespace ddp
