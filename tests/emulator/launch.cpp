#include "emulator/launch.h"

#include "grid.h"
#include "streams.h"

#include <cstdint>

namespace emulator {
namespace {

bool is_valid(const cudaLaunchConfig_t& config) {
  const dim3 grid = config.gridDim, block = config.blockDim;
  return grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= 0x7fffffff && grid.y <= 65535 && grid.z <= 65535 &&
         block.x > 0 && block.y > 0 && block.z > 0 && block.z <= 64 && uint64_t{block.x} * block.y * block.z <= 1024 &&
         config.dynamicSmemBytes == 0;
}

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t& config, std::function<void()> thread) {
  if (!is_valid(config)) return report(cudaErrorInvalidConfiguration);
  const auto lock = Scheduler::lock();
  count_kernel();
  if (!computes()) return submit(config.stream, {});
  const auto run = [grid = config.gridDim, block = config.blockDim, thread = std::move(thread)] {
    run_grid(grid, block, thread);
  };
  return submit(config.stream, {run, {}});
}

}  // namespace emulator
