#include "device/cpu/device.h"

#include "core/error.h"

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace ddp {
namespace {

constexpr size_t kAlignment = 64;

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
  void download(void* host, const void* device, size_t bytes) override { copy(host, device, bytes); }
  void zero(void* device, size_t bytes) override {
    if (bytes > 0) std::memset(device, 0, bytes);
  }
  void synchronize() override {}

  void mark(int slot) override { marks_.at(slot) = Clock::now(); }
  double milliseconds(int from, int to) override {
    return std::chrono::duration<double, std::milli>(marks_.at(to) - marks_.at(from)).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static void copy(void* to, const void* from, size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }

  std::array<Clock::time_point, kMarks> marks_{};
};

}  // namespace

std::unique_ptr<Device> make_cpu_device() { return std::make_unique<CpuDevice>(); }

}  // namespace ddp
