// Ranks as threads; each has an emulated GPU and a communicator.
#pragma once

#include "comm/nccl/communicator.h"
#include "comm/staged.h"
#include "device/buffer.h"
#include "device/cuda/device.h"
#include "tests/comm/rank_values.h"
#include "tests/comm/ranks.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace ddp {

enum class Transport { nccl, staged };

// Runs `function` on every rank of a local world of `size` ranks.
inline void run_gpus(Transport transport, int size, const std::function<void(Device&, Communicator&)>& function) {
  run_ranks(size, [&](Communicator& host) {
    const auto device = make_cuda_device({});
    const auto communicator = transport == Transport::nccl ? make_nccl_communicator(*device, host, {})
                                                           : make_staged_communicator(*device, host, 3);
    function(*device, *communicator);
  });
}

// Device memory with a pinned host copy. Copies between the two are asynchronous because the host memory is pinned.
template <class T>
class Array {
 public:
  Array(Device& device, size_t count)
      : device_(device),
        count_(count),
        host_(device.host_memory(), count * sizeof(T)),
        data_(device, count * sizeof(T)) {}

  size_t count() const { return count_; }
  T& operator[](size_t i) { return host_.as<T>()[i]; }
  DeviceSpan span() const {
    return {data_.data(), static_cast<int64_t>(count_), sizeof(T) == 4 ? DType::f32 : DType::bf16};
  }
  void* data() const { return data_.data(); }
  void upload() { device_.upload(data_.data(), host_.data(), count_ * sizeof(T)); }
  void download() { device_.download(host_.data(), data_.data(), count_ * sizeof(T)); }

 private:
  Device& device_;
  size_t count_;
  Buffer host_, data_;
};

}  // namespace ddp
