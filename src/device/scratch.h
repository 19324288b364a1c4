// Memory that all ops of one rank share; one op uses it at a time. It grows while plans are made, never in a step.
#pragma once

#include "device/buffer.h"

#include <cstddef>

namespace ddp {

class Scratch {
 public:
  explicit Scratch(Memory& memory) : memory_(memory) {}

  void reserve(size_t bytes) {
    if (bytes > buffer_.bytes()) buffer_ = Buffer(memory_, bytes);
  }

  size_t bytes() const { return buffer_.bytes(); }
  void* data() const { return buffer_.data(); }  // valid until the next reserve

 private:
  Memory& memory_;
  Buffer buffer_;
};

}  // namespace ddp
