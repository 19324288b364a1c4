// The safetensors file format: eight bytes of little-endian header length, a JSON header that gives each tensor's
// dtype, shape and byte range, then the data, each byte of it in one tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
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

// As F32 and I64. At any moment the path holds the old content or the new. Throws Error(Exit::output).
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors);

// By name. F16, BF16 and F64 become f32; I64 is read where it is a single number; no other type is read. Throws
// Error(Exit::data) naming the file and the tensor where something is missing, truncated, malformed, or of another
// type. The memory it takes is bounded by the file's length.
std::map<std::string, NamedTensor> read_safetensors(const std::filesystem::path& path);

// The same from a stream that can seek; `name` stands for it in messages.
std::map<std::string, NamedTensor> read_safetensors(std::istream& file, const std::string& name);

}  // namespace ddp
