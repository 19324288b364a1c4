// Scratch memory that all ops of one rank share; one op runs at a time. It grows while plans are made, never in a step.
#pragma once

#include "device/buffer.h"
#include "device/device.h"

#include <cstddef>

namespace ddp {

class Scratch {
 public:
  explicit Scratch(Device& device) : device_(device) {}

  void reserve(size_t bytes) {
    if (bytes > buffer_.bytes()) buffer_ = Buffer(device_, bytes);
  }

  // Valid until the next reserve.
  std::byte* data() const { return buffer_.as<std::byte>(); }

 private:
  Device& device_;
  Buffer buffer_;
};

}  // namespace ddp
