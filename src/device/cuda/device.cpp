#include "device/cuda/device.h"

#include "core/error.h"
#include "device/cuda/clock.h"
#include "device/cuda/graph_cache.h"
#include "device/cuda/handles.h"
#include "device/cuda/kernel_image.h"
#include "device/cuda/launch.h"

#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>

#include <array>
#include <cstring>
#include <iterator>
#include <map>
#include <vector>

namespace ddp {
namespace {

void require_memory(cudaError_t result, size_t bytes, const char* where_and_advice) {
  if (result == cudaSuccess) return;
  cudaGetLastError();
  fail(Exit::device, "cannot allocate {} bytes {} ({})", bytes, where_and_advice, cudaGetErrorString(result));
}

void require_kernels_for(const CudaDeviceInfo& gpu, bool programmatic) {
  constexpr int kLeast = 80;  // asynchronous copies and bf16
  constexpr int kLeastProgrammatic = 90;
  const auto text = [](int capability) { return fmt::format("{}.{}", capability / 10, capability % 10); };
  const std::string it = fmt::format("{} has compute capability {}", gpu.name, text(gpu.capability));
  if (gpu.capability < kLeast)
    fail(Exit::device, "{}, this program needs {}: choose another GPU with CUDA_VISIBLE_DEVICES, or use --device cpu",
         it, text(kLeast));
  if (kernel_image(built_architectures(), gpu.capability) == KernelImage::none)
    fail(Exit::device,
         "{}, this program was built for {}: build it with -DDDP_CUDA_ARCHITECTURES={}, or use --device cpu", it,
         built_architectures(), gpu.capability);
  require(!programmatic || gpu.capability >= kLeastProgrammatic, Exit::device,
          "--programmatic-launch needs a GPU of compute capability {} or later; {} has {}", text(kLeastProgrammatic),
          gpu.name, text(gpu.capability));
}

class PinnedMemory final : public Memory {
 public:
  void* allocate(size_t bytes) override {
    void* memory = nullptr;
    require_memory(cudaHostAlloc(&memory, bytes > 0 ? bytes : 1, cudaHostAllocDefault), bytes,
                   "of page-locked memory, for batches or a save; raise the limit on locked memory, or use a smaller "
                   "--batch-size");
    std::memset(memory, 0, bytes);
    blocks_[static_cast<char*>(memory)] = bytes;
    return memory;
  }
  void deallocate(void* memory) noexcept override {
    blocks_.erase(static_cast<char*>(memory));
    cudaFreeHost(memory);
  }
  bool owns(const void* memory) const {
    const auto* const at = static_cast<const char*>(memory);
    const auto after = blocks_.upper_bound(at);
    if (after == blocks_.begin()) return false;
    const auto& [begin, bytes] = *std::prev(after);
    return at < begin + bytes;
  }

 private:
  std::map<const char*, size_t> blocks_;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(const CudaDeviceConfig& config) : config_(config) {
    DDP_CUDA(cudaSetDevice(config.index));
    info_ = cuda_device_info(config.index);
    require_kernels_for(info_, config.programmatic);
    programmatic_launches = config.programmatic;
    compute_ = make_stream(0);
    ahead_ = make_stream(0);
    clock_ = make_stream(0);
    order_ = make_event();
    for (CudaEvent& fence : fences_) fence = make_event();
  }
  ~CudaDevice() override { cudaDeviceSynchronize(); }

  std::string name() const override { return info_.name; }
  bool is_host() const override { return false; }
  MemoryUse memory_use() const override {
    size_t free = 0, total = 0;
    DDP_CUDA(cudaMemGetInfo(&free, &total));
    return {.allocated = allocated_, .free = static_cast<int64_t>(free)};
  }
  Memory& host_memory() override { return pinned_; }
  cudaStream_t compute() const { return compute_.get(); }
  void join_later(cudaStream_t stream) {
    forget(stream);
    unjoined_.push_back(stream);
  }
  void forget(cudaStream_t stream) { std::erase(unjoined_, stream); }

  void* allocate(size_t bytes) override {
    void* memory = nullptr;
    require_memory(cudaMalloc(&memory, bytes > 0 ? bytes : 1), bytes,
                   "on the GPU; use a smaller --batch-size, more ranks, or a smaller --device-data-mb");
    allocated_ += static_cast<int64_t>(bytes);
    zero(memory, bytes);
    synchronize();
    return memory;
  }
  void deallocate(void* memory) noexcept override { cudaFree(memory); }

  void upload(void* device, const void* host, size_t bytes) override { upload(device, host, bytes, compute()); }
  void download(void* host, const void* device, size_t bytes) override {
    join();
    DDP_CUDA(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, compute()));
  }
  void upload_ahead(void* device, const void* host, size_t bytes) override {
    upload(device, host, bytes, ahead_.get());
    order_after(compute(), ahead_.get(), order_.get());
  }
  void zero(void* device, size_t bytes) override { DDP_CUDA(cudaMemsetAsync(device, 0, bytes, compute())); }
  void synchronize() override {
    join();
    DDP_CUDA(cudaStreamSynchronize(compute()));
  }

  void fence(int slot) override { DDP_CUDA(cudaEventRecord(fences_.at(slot).get(), compute())); }
  void await(int slot) override { DDP_CUDA(cudaEventSynchronize(fences_.at(slot).get())); }
  bool passed(int slot) override {
    const cudaError_t state = cudaEventQuery(fences_.at(slot).get());
    if (state == cudaErrorNotReady) {
      cudaGetLastError();
      return false;
    }
    DDP_CUDA(state);
    return true;
  }

  // On a separate stream, so that no work of the step waits for it.
  void timestamp(int64_t* nanoseconds) override {
    order_after(clock_.get(), compute(), order_.get());
    write_clock(clock_.get(), nanoseconds);
    join_later(clock_.get());
  }

  std::unique_ptr<GraphCache> graph_cache() override {
    return make_cuda_graph_cache(compute(), config_.graphs, [this] { join(); });
  }

 private:
  void begin_profiler_range(const char* name) noexcept override { nvtxRangePushA(name); }
  void end_profiler_range() noexcept override { nvtxRangePop(); }

  // Synchronizes for memory that is not pinned: where the GPU can access pageable memory, the copy may read it after
  // the call has returned.
  void upload(void* device, const void* host, size_t bytes, cudaStream_t stream) {
    DDP_CUDA(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream));
    if (!pinned_.owns(host)) DDP_CUDA(cudaStreamSynchronize(stream));
  }

  void join() {
    for (const cudaStream_t stream : unjoined_) order_after(compute(), stream, order_.get());
    unjoined_.clear();
  }

  CudaDeviceConfig config_;
  CudaDeviceInfo info_;
  PinnedMemory pinned_;
  int64_t allocated_ = 0;  // bytes, those freed since included
  CudaStream compute_, ahead_, clock_;
  CudaEvent order_;
  std::array<CudaEvent, kFences> fences_;
  std::vector<cudaStream_t> unjoined_;  // with work that compute_ is not ordered after
};

CudaDevice& cuda_device(Device& device) {
  auto* const cuda = dynamic_cast<CudaDevice*>(&device);
  require(cuda != nullptr, Exit::internal, "{} is not a CUDA device", device.name());
  return *cuda;
}

}  // namespace

int count_cuda_devices(std::string& why) {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result != cudaSuccess) {
    cudaGetLastError();
    count = 0;
    why = result == cudaErrorInsufficientDriver ? "no NVIDIA driver, or one too old for this program"
          : result == cudaErrorNoDevice         ? "no GPU is visible"
                                                : cudaGetErrorString(result);
  } else if (count == 0) {
    why = "no GPU is visible";
  }
  return count;
}

CudaDeviceInfo cuda_device_info(int index) {
  CudaDeviceInfo info;
  cudaDeviceProp properties{};
  DDP_CUDA(cudaGetDeviceProperties(&properties, index));
  info.name = properties.name;
  info.capability = 10 * properties.major + properties.minor;
  info.processors = properties.multiProcessorCount;
  if (kernel_image(built_architectures(), info.capability) == KernelImage::ptx)
    info.compiling =
        fmt::format("compiling kernels for {} (compute capability {}.{}), unless an earlier start has done so",
                    info.name, properties.major, properties.minor);
  for (const char byte : properties.uuid.bytes) info.uuid += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  std::array<char, 64> bus{};
  DDP_CUDA(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), index));
  info.bus_id = bus.data();
  int driver = 0, runtime = 0;
  DDP_CUDA(cudaDriverGetVersion(&driver));
  DDP_CUDA(cudaRuntimeGetVersion(&runtime));
  info.version =
      fmt::format("driver {}.{}, CUDA {}.{}", driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
  return info;
}

std::unique_ptr<Device> make_cuda_device(const CudaDeviceConfig& config) {
  return std::make_unique<CudaDevice>(config);
}

cudaStream_t compute_stream(Device& device) { return cuda_device(device).compute(); }
void join_later(Device& device, cudaStream_t stream) { cuda_device(device).join_later(stream); }
void forget(Device& device, cudaStream_t stream) { cuda_device(device).forget(stream); }

}  // namespace ddp
