// A file of one array, as numpy.load reads it (NPY format 1.0).
#pragma once

#include "core/durable_file.h"

#include <cstdint>
#include <filesystem>
#include <span>

namespace ddp {

class NpyFile {
 public:
  // Creates the file. Throws Error(Exit::output), also if it exists.
  explicit NpyFile(const std::filesystem::path& path) : file_(path) {}

  // The first call: type and shape of the array. "<f4" are floats, "<i8" integers of 64 bits.
  void begin(const char* type, std::span<const int64_t> shape);

  // The next elements, in C order.
  template <class T>
  void append(std::span<const T> values) {
    file_.write({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }
  NewFile& file() { return file_; }

 private:
  NewFile file_;
};

}  // namespace ddp
