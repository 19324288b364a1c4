#include "emulator/launch.h"

#include "grid.h"
#include "streams.h"

#include <cstdint>
#include <memory>

namespace emulator {
namespace {

bool is_valid(const cudaLaunchConfig_t& config) {
  const dim3 grid = config.gridDim, block = config.blockDim;
  return grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= 0x7fffffff && grid.y <= 65535 && grid.z <= 65535 &&
         block.x > 0 && block.y > 0 && block.z > 0 && block.z <= 64 && uint64_t{block.x} * block.y * block.z <= 1024 &&
         config.dynamicSmemBytes == 0;
}

bool is_programmatic(const cudaLaunchConfig_t& config) {
  for (unsigned i = 0; i < config.numAttrs; ++i)
    if (config.attrs[i].id == cudaLaunchAttributeProgrammaticStreamSerialization)
      return config.attrs[i].val.programmaticStreamSerializationAllowed != 0;
  return false;
}

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t& config, std::function<void()> thread) {
  if (!is_valid(config)) return report(cudaErrorInvalidConfiguration);
  const auto lock = Scheduler::lock();
  const bool early = is_programmatic(config);
  count_kernel(early);
  if (!computes()) return submit(config.stream, {});
  const dim3 blocks = config.gridDim, threads = config.blockDim;
  if (!early)
    return submit_kernel(config.stream, [=, thread = std::move(thread)] { run_grid(blocks, threads, thread); });
  // Launches of a graph run one after another, so they can share the place.
  const auto kernel = std::make_shared<const std::function<void()>>(std::move(thread));
  const auto begun = std::make_shared<std::unique_ptr<EarlyGrid>>();
  return submit_kernel(
      config.stream,
      [=] {
        (*begun)->finish();
        begun->reset();
      },
      [=] { *begun = std::make_unique<EarlyGrid>(blocks, threads, kernel); });
}

}  // namespace emulator
