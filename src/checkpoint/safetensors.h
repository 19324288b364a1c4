// The safetensors file format: a little-endian header length of eight bytes, a JSON header with each tensor's dtype,
// shape and byte range, then the data. Each byte of the data belongs to exactly one tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
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
  bool is_mask = false;                 // of U8 or BOOL in the file: no weight
};

// Texts about the tensors, in UTF-8: the entry __metadata__ of the header.
using Metadata = std::map<std::string, std::string>;

// The bytes of a file with `values` as F32 and `integer` as I64. Its metadata also have "format": "pt", which other
// readers ask for.
std::string safetensors_content(const std::vector<NamedTensor>& tensors, const Metadata& metadata);

// A tensor that is written: `values` makes its values when their turn comes, as many as the shape says.
struct TensorSource {
  std::string name;
  std::vector<int64_t> shape;
  std::function<std::vector<float>()> values = {};
  std::optional<int64_t> integer = {};  // a single number, instead of `values`
};

// Writes such a file. Memory holds the values of one tensor at a time. The path holds the old content or the new at any
// moment. Throws Error(Exit::output).
void write_safetensors(const std::filesystem::path& path, const std::vector<TensorSource>& tensors,
                       const Metadata& metadata = {});

// Returns the tensors by name. Converts F16, BF16, F64, U8 and BOOL to f32, reads a single number of I64, and no other
// type. Throws Error(Exit::data) with the names of the file and the tensor where data are missing, truncated, malformed
// or of another type; for a file of another format, with what it is (foreign_file.h). The file's length bounds the
// memory that it allocates; as in other readers, a header has at most 100 MB.
std::map<std::string, NamedTensor> read_safetensors(const std::filesystem::path& path);

// Returns the metadata alone, empty where the file has none. Throws as read_safetensors(), but reads no tensor.
Metadata read_safetensors_metadata(const std::filesystem::path& path);

// The same from a seekable stream; `name` is its name in messages.
std::map<std::string, NamedTensor> read_safetensors(std::istream& file, const std::string& name);
Metadata read_safetensors_metadata(std::istream& file, const std::string& name);

}  // namespace ddp
