#include "device/cpu/device.h"

#include "core/error.h"
#include "core/stopwatch.h"

#include <cstdlib>
#include <cstring>
#include <fstream>

namespace ddp {
namespace {

constexpr size_t kAlignment = 64;

class EagerGraphCache final : public GraphCache {
 public:
  void run(GraphKey, const std::function<void()>& work) override { work(); }
};

class CpuDevice final : public Device {
 public:
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

  void* allocate(size_t bytes) override {
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* memory = std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded);
    require(memory != nullptr, Exit::device,
            "cannot allocate {} bytes of memory; use a smaller --batch-size or fewer ranks on this host", bytes);
    std::memset(memory, 0, rounded);
    return memory;
  }
  void deallocate(void* memory) noexcept override { std::free(memory); }

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
};

}  // namespace

std::unique_ptr<Device> make_cpu_device() { return std::make_unique<CpuDevice>(); }

}  // namespace ddp
