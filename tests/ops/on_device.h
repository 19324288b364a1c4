// Memory on any device; tests write and read it from the host.
#pragma once

#include "device/buffer.h"
#include "device/device.h"
#include "device/tensor.h"
#include "ops/weight_data.h"
#include "tests/ops/reference/stored.h"
#include "tests/values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace ddp::testing {

// Memory of exactly the given size, so the address sanitizer reports every access beside it.
class ExactMemory final : public Memory {
 public:
  static ExactMemory& instance() {
    static ExactMemory memory;
    return memory;
  }
  void* allocate(size_t bytes) override { return std::malloc(bytes); }
  void deallocate(void* memory) noexcept override { std::free(memory); }
};

// Values on the device, `before` elements behind the start of the memory. An op must not change the bytes beside the
// values: on the host the address sanitizer guards them, elsewhere guard bytes lie before and after the values.
template <class T>
class OnDevice {
 public:
  OnDevice(Device& device, const std::vector<T>& values, int64_t before = 0)
      : device_(device),
        count_(values.size()),
        before_(before),
        buffer_(device.is_host() ? static_cast<Memory&>(ExactMemory::instance()) : device, bytes()) {
    std::vector<uint8_t> memory(bytes(), kGuard);
    if (count_ > 0) std::memcpy(memory.data() + before_ * sizeof(T), values.data(), count_ * sizeof(T));
    device.upload(buffer_.data(), memory.data(), memory.size());
  }

  T* data() const { return buffer_.as<T>() + before_; }
  std::vector<T> values() const {
    std::vector<uint8_t> memory(bytes());
    device_.download(memory.data(), buffer_.data(), memory.size());
    device_.synchronize();
    const auto first = memory.begin() + before_ * sizeof(T), end = first + count_ * sizeof(T);
    const auto kept = [](uint8_t byte) { return byte == kGuard; };
    EXPECT_TRUE(std::all_of(memory.begin(), first, kept) && std::all_of(end, memory.end(), kept)) << "written beside";
    std::vector<T> values(count_);
    if (count_ > 0) std::memcpy(values.data(), memory.data() + before_ * sizeof(T), count_ * sizeof(T));
    return values;
  }

 private:
  static constexpr uint8_t kGuard = 0xff;  // a NaN in f32 and bf16
  size_t bytes() const { return (before_ + count_) * sizeof(T) + (device_.is_host() ? 0 : 64); }

  Device& device_;
  size_t count_, before_;
  Buffer buffer_;
};

// Weights or a bias, as ops read them.
class WeightsOnDevice {
 public:
  WeightsOnDevice(Device& device, const Values& values) : f32_(device, values), bf16_(device, bf16_of(values)) {}
  WeightData data() const { return {f32_.data(), bf16_.data()}; }

 private:
  OnDevice<float> f32_;
  OnDevice<uint16_t> bf16_;
};

// A tensor on the device. Without values it holds NaN, so a test sees every element that an op did not write.
class TensorOnDevice {
 public:
  // `padding`: the value of the lanes past n and the channels past c.
  TensorOnDevice(Device& device, const Shape& shape, Format format, DType type, const Values& dense, float padding = 0,
                 int64_t before = 0)
      : TensorOnDevice(device, shape, format, type, reference::stored(dense, shape, format, type, padding), before) {}
  TensorOnDevice(Device& device, const Shape& shape, Format format, DType type, int64_t before = 0)
      : TensorOnDevice(device, shape, format, type,
                       std::vector<uint8_t>(stored_elements(shape, format) * size_of(type), 0xff), before) {}

  Tensor tensor() const { return {memory_.data(), shape_, format_, type_}; }
  reference::Loaded loaded() const { return reference::loaded(memory_.values(), shape_, format_, type_); }
  Values values() const { return loaded().dense; }

 private:
  TensorOnDevice(Device& device, const Shape& shape, Format format, DType type, const std::vector<uint8_t>& bytes,
                 int64_t before)
      : shape_(shape),
        format_(format),
        type_(type),
        memory_(device, bytes, before * static_cast<int64_t>(size_of(type))) {}

  Shape shape_;
  Format format_;
  DType type_;
  OnDevice<uint8_t> memory_;
};

inline Tensor on_host(Values& values, const Shape& shape) { return {values.data(), shape, {}, DType::f32}; }

}  // namespace ddp::testing
