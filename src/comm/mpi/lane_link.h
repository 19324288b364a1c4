// The link of a lane over MPI: the segmented ring, the exchange in int8, and for little data the small exchange.
#pragma once

#include "comm/shm/host_link.h"

#include <mpi.h>

#include <memory>

namespace ddp {

// `lane`: the ranks of the lane in the order of their hosts; it must outlive the result. `tag`: two tags from 2*tag on
// belong to the result.
std::unique_ptr<HostLink> make_lane_link(MPI_Comm lane, const BlockRule& rule, int tag);

}  // namespace ddp
