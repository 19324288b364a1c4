// Memory on an emulated or real device; tests write and read it from the host.
#pragma once

#include "core/bf16.h"
#include "device/buffer.h"
#include "device/device.h"
#include "device/tensor.h"
#include "tests/values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace ddp::testing {

// Values on the device, `before` elements behind the start of the memory. Guard bytes lie before and after the values;
// an op must not change the guard bytes.
template <class T>
class OnDevice {
 public:
  OnDevice(Device& device, std::vector<T> values, int64_t before = 0)
      : device_(device), count_(values.size()), before_(before), buffer_(device, bytes()) {
    std::vector<uint8_t> memory(bytes(), kGuard);
    if (count_ > 0) std::memcpy(memory.data() + before_ * sizeof(T), values.data(), count_ * sizeof(T));
    device.upload(buffer_.data(), memory.data(), memory.size());
  }

  T* data() const { return buffer_.as<T>() + before_; }
  std::vector<T> values() const {
    std::vector<uint8_t> memory(bytes());
    device_.download(memory.data(), buffer_.data(), memory.size());
    const auto first = memory.begin() + before_ * sizeof(T), end = first + count_ * sizeof(T);
    const auto kept = [](uint8_t byte) { return byte == kGuard; };
    EXPECT_TRUE(std::all_of(memory.begin(), first, kept) && std::all_of(end, memory.end(), kept)) << "written beside";
    std::vector<T> values(count_);
    if (count_ > 0) std::memcpy(values.data(), memory.data() + before_ * sizeof(T), count_ * sizeof(T));
    return values;
  }

 private:
  static constexpr uint8_t kGuard = 0xff;  // a NaN in f32 and bf16
  size_t bytes() const { return (before_ + count_) * sizeof(T) + 64; }

  Device& device_;
  size_t count_, before_;
  Buffer buffer_;
};

// A dense tensor on the device. Without values it holds NaN, so a test sees every element that an op did not write.
class OnDeviceTensor {
 public:
  OnDeviceTensor(Device& device, Shape shape, DType type, const Values& values, int64_t before = 0)
      : shape_(shape),
        type_(type),
        memory_(device, encode(values, type), before * static_cast<int64_t>(size_of(type))) {}
  OnDeviceTensor(Device& device, Shape shape, DType type, int64_t before = 0)
      : shape_(shape),
        type_(type),
        memory_(device, std::vector<uint8_t>(shape.elements() * size_of(type), 0xff),
                before * static_cast<int64_t>(size_of(type))) {}

  Tensor tensor() const { return {memory_.data(), shape_, {}, type_}; }
  Values values() const {
    const std::vector<uint8_t> bytes = memory_.values();
    Values values(shape_.elements());
    for (size_t i = 0; i < values.size(); ++i)
      if (type_ == DType::bf16) {
        uint16_t bits;
        std::memcpy(&bits, bytes.data() + i * sizeof bits, sizeof bits);
        values[i] = float_of_bf16(bits);
      } else {
        std::memcpy(&values[i], bytes.data() + i * sizeof(float), sizeof(float));
      }
    return values;
  }

 private:
  static std::vector<uint8_t> encode(const Values& values, DType type) {
    std::vector<uint8_t> bytes(values.size() * size_of(type));
    for (size_t i = 0; i < values.size(); ++i)
      if (type == DType::bf16) {
        const uint16_t bits = bf16_of_float(values[i]);
        std::memcpy(bytes.data() + i * sizeof bits, &bits, sizeof bits);
      } else {
        std::memcpy(bytes.data() + i * sizeof(float), &values[i], sizeof(float));
      }
    return bytes;
  }

  Shape shape_;
  DType type_;
  OnDevice<uint8_t> memory_;
};

inline Tensor on_host(Values& values, Shape shape) { return {values.data(), shape, {}, DType::f32}; }

}  // namespace ddp::testing
