#include "device/cpu/device.h"

#include "core/stopwatch.h"
#include "device/host_memory.h"

#include <cstring>
#include <fstream>

namespace ddp {
namespace {

class EagerGraphCache final : public GraphCache {
 public:
  void run(GraphKey, const std::function<void()>& work) override { work(); }
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(Memory* memory) : memory_(memory ? *memory : own_) {}

  std::string name() const override {
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);) {
      const size_t value = line.find_first_not_of(" \t", line.find(':') + 1);
      if (line.starts_with("model name") && value != std::string::npos) return line.substr(value);
    }
    return "CPU";
  }

  bool is_host() const override { return true; }
  Memory& host_memory() override { return *this; }

  void* allocate(size_t bytes) override { return memory_.allocate(bytes); }
  void deallocate(void* memory) noexcept override { memory_.deallocate(memory); }

  void upload(void* device, const void* host, size_t bytes) override { copy(device, host, bytes); }
  void upload_ahead(void* device, const void* host, size_t bytes) override { copy(device, host, bytes); }
  void download(void* host, const void* device, size_t bytes) override { copy(host, device, bytes); }
  void zero(void* device, size_t bytes) override {
    if (bytes > 0) std::memset(device, 0, bytes);
  }
  void synchronize() override {}

  void fence(int) override {}
  void await(int) override {}
  bool passed(int) override { return true; }

  void timestamp(int64_t* nanoseconds) override { *nanoseconds = steady_ns(); }

  std::unique_ptr<GraphCache> graph_cache() override { return std::make_unique<EagerGraphCache>(); }

 private:
  static void copy(void* to, const void* from, size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }

  HostMemory own_;
  Memory& memory_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device() { return std::make_unique<CpuDevice>(nullptr); }

std::unique_ptr<Device> make_cpu_device(Memory& memory) { return std::make_unique<CpuDevice>(&memory); }

}  // namespace ddp
