// Owner of memory from a Memory source, move-only. The source must outlive the buffer.
#pragma once

#include "device/memory.h"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace ddp {

constexpr size_t bytes_of_floats(int64_t count) { return static_cast<size_t>(count) * sizeof(float); }

class Buffer {
 public:
  Buffer() = default;
  Buffer(Memory& source, size_t bytes) : source_(&source), data_(source.allocate(bytes)), bytes_(bytes) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  ~Buffer() {
    if (data_) source_->deallocate(data_);
  }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(source_, other.source_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  Memory* source_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace ddp
