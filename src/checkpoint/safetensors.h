// The safetensors file format: a little-endian header length of eight bytes, a JSON header with each tensor's dtype,
// shape and byte range, then the data. Each byte of the data belongs to exactly one tensor.
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
  std::optional<int64_t> integer = {};  // a single number, instead of `values`
};

// Writes `values` as F32 and `integer` as I64. The path holds the old content or the new at any moment. Throws
// Error(Exit::output).
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors);

// Returns the tensors by name. Converts F16, BF16 and F64 to f32, reads a single number of I64, and no other type.
// Throws Error(Exit::data) with the names of the file and the tensor where data are missing, truncated, malformed or of
// another type. The file's length bounds the memory that it allocates.
std::map<std::string, NamedTensor> read_safetensors(const std::filesystem::path& path);

// The same from a seekable stream; `name` is its name in messages.
std::map<std::string, NamedTensor> read_safetensors(std::istream& file, const std::string& name);

}  // namespace ddp
