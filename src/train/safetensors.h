// The safetensors file format: eight bytes of little-endian header length, a JSON header that gives each tensor's
// dtype, shape and byte range, then the data. f32 tensors, and single I64 numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values = {};
  std::optional<int64_t> integer = {};  // in the place of values
};

// Written to a temporary file, flushed to the disk, then renamed: the path holds the old content or the new. Throws
// Error(Exit::output).
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors);

// By name. Throws Error(Exit::data) naming the file where it is missing, truncated, malformed, or has a tensor of
// another type.
std::map<std::string, NamedTensor> read_safetensors(const std::filesystem::path& path);

}  // namespace ddp
