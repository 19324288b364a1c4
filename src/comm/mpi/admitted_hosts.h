// Limits which hosts reach the TCP ports of this process. Open MPI listens on all interfaces, and a stranger's
// connection that sends nothing holds the rank that accepts it.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace ddp {

// The addresses of the interfaces of this host that are up, as text, loopback included.
std::vector<std::string> addresses_of_interfaces();

// From now on, the TCP sockets of this process that listen take packets from these addresses only; the kernel drops
// others (a socket filter, which needs no rights). A text that is no address is ignored. Returns the number of such
// sockets; where the system refuses a filter, or there are too many addresses (the kernel's limit is some hundreds on
// old systems), a socket stays open to all.
int admit_only(std::span<const std::string> addresses);

}  // namespace ddp
