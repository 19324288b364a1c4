// Runs `thread` once for each thread of a grid, on the calling host thread.
#pragma once

#include "emulator/vectors.h"

#include <functional>
#include <memory>

namespace emulator {

void run_grid(dim3 blocks, dim3 threads, const std::function<void()>& thread);

// A grid of a programmatic launch: it begins before the grid in front of it has ended. Host threads may differ.
class EarlyGrid {
 public:
  // Runs the threads of one block up to cudaGridDependencySynchronize().
  EarlyGrid(dim3 blocks, dim3 threads, std::shared_ptr<const std::function<void()>> thread);
  ~EarlyGrid();
  // Runs the rest. Ends the program if a thread ends without a call of cudaGridDependencySynchronize().
  void finish();

 private:
  std::shared_ptr<const std::function<void()>> thread_;
  std::unique_ptr<class Grid> grid_;
};

}  // namespace emulator
