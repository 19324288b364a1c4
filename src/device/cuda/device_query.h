// Queries about CUDA on this host. No function throws or starts work on a GPU. In a build without CUDA (no_cuda.cpp)
// all results are empty.
#pragma once

#include "core/library_version.h"

#include <string>
#include <vector>

namespace ddp {

// The newest CUDA version that the driver supports; all 0 without a driver.
LibraryVersion::Number cuda_driver_version();

// The version of the CUDA runtime.
std::vector<LibraryVersion> cuda_device_libraries();

// The bus ids of the visible GPUs whose memory GPU `index` cannot access directly (peer access).
std::vector<std::string> unreachable_cuda_peers(int index);

}  // namespace ddp
