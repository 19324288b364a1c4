// What is to know about CUDA on this host before any work is given to a GPU. Nothing here throws, or starts work on a
// GPU. Where CUDA is not built, a twin is linked that knows nothing.
#pragma once

#include "core/library_version.h"

#include <string>
#include <vector>

namespace ddp {

// The newest CUDA that the driver serves; all 0 where there is no driver.
LibraryVersion::Number cuda_driver_version();

std::vector<LibraryVersion> cuda_device_libraries();

// The bus ids of the visible GPUs whose memory the one of this index cannot reach directly.
std::vector<std::string> cuda_peers_out_of_reach(int index);

}  // namespace ddp
