// A span of either data type in any memory, whose elements are read and written as float.
#pragma once

#include "comm/communicator.h"
#include "core/bf16.h"
#include "device/buffer.h"
#include "device/host_memory.h"

#include <cstdint>

namespace ddp {

class Numbers {
 public:
  Numbers(DType dtype, int64_t count, Memory& memory = heap())
      : dtype_(dtype), count_(count), data_(memory, static_cast<size_t>(count) * size_of(dtype)) {}

  DeviceSpan span() const { return {data_.data(), count_, dtype_}; }
  void set(int64_t i, float x) {
    if (dtype_ == DType::f32)
      data_.as<float>()[i] = x;
    else
      data_.as<uint16_t>()[i] = bf16_of_float(x);
  }
  float at(int64_t i) const {
    return dtype_ == DType::f32 ? data_.as<float>()[i] : float_of_bf16(data_.as<uint16_t>()[i]);
  }

  static Memory& heap() {
    static HostMemory memory;
    return memory;
  }

 private:
  DType dtype_;
  int64_t count_;
  Buffer data_;
};

}  // namespace ddp
