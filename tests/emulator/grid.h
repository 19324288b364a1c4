// Runs `thread` once for each thread of a grid, on the calling thread.
#pragma once

#include "emulator/vectors.h"

#include <functional>

namespace emulator {

void run_grid(dim3 blocks, dim3 threads, const std::function<void()>& thread);

}  // namespace emulator
