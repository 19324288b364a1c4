#include "checkpoint/safetensors.h"

#include "checkpoint/foreign_file.h"
#include "core/bf16.h"
#include "core/durable_file.h"
#include "core/error.h"
#include "core/json_reader.h"
#include "core/printable.h"
#include "core/read_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

namespace ddp {
namespace {

using nlohmann::json;

constexpr const char* kMetadata = "__metadata__";
constexpr int64_t kMaxHeaderBytes = 100'000'000;  // the limit of other readers
constexpr int64_t kMaxHeaderValues = 2'000'000;   // of a quarter million tensors

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

// A tensor of the header. `begin` and `end` are its byte range in the data.
struct Entry {
  std::string name, dtype;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;
};

struct Width {
  const char* dtype;
  uint64_t bytes;
};
constexpr Width kWidths[] = {{"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F64", 8}, {"I64", 8}, {"U8", 1}, {"BOOL", 1}};

class Malformed {
 public:
  explicit Malformed(const std::string& file) : file_(file) {}

  template <class... Args>
  [[noreturn]] void operator()(fmt::format_string<Args...> why, Args&&... args) const {
    fail(Exit::data, "{}", text(fmt::format(why, std::forward<Args>(args)...)));
  }
  std::string text(const std::string& why) const {
    return fmt::format("{} is not a readable safetensors file: {}", file_, why);
  }
  const std::string& file() const { return file_; }

 private:
  const std::string& file_;
};

std::string in_quotes(const std::string& name) { return fmt::format("\"{}\"", shortened(name)); }

std::vector<uint64_t> numbers(const json& entry, const char* key, const std::string& name, const Malformed& malformed) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array()) malformed("tensor {} has no list {}", in_quotes(name), key);
  std::vector<uint64_t> result;
  for (const json& number : *found) {
    constexpr uint64_t kMaxValue = std::numeric_limits<int64_t>::max();
    if (!number.is_number_unsigned() || number.get<uint64_t>() > kMaxValue)
      malformed("tensor {}: {} must hold whole numbers from 0 to 2^63 - 1", in_quotes(name), key);
    result.push_back(number.get<uint64_t>());
  }
  return result;
}

Entry parse_entry(const std::string& name, const json& entry, uint64_t data_bytes, const Malformed& malformed) {
  if (!entry.is_object()) malformed("tensor {} has no dtype, shape and data_offsets", in_quotes(name));
  const auto dtype = entry.find("dtype");
  if (dtype == entry.end() || !dtype->is_string()) malformed("tensor {} has no dtype", in_quotes(name));
  const std::vector<uint64_t> shape = numbers(entry, "shape", name, malformed);
  const std::vector<uint64_t> range = numbers(entry, "data_offsets", name, malformed);
  if (range.size() != 2 || range[0] > range[1] || range[1] > data_bytes)
    malformed("tensor {} lies outside the file, which may be truncated", in_quotes(name));

  Entry result{name, dtype->get<std::string>(), {shape.begin(), shape.end()}, range[0], range[1]};
  const auto width = std::find_if(std::begin(kWidths), std::end(kWidths),
                                  [&](const Width& known) { return result.dtype == known.dtype; });
  if (width == std::end(kWidths) || (result.dtype == "I64" && !shape.empty()))
    malformed(
        "tensor {} has dtype {}; supported are F32, F16, BF16, F64, single I64 numbers, and masks of U8 or BOOL: "
        "convert it, in PyTorch with tensor.float()",
        in_quotes(name), in_quotes(result.dtype));
  uint64_t bytes = width->bytes;
  for (const uint64_t dimension : shape)
    if (__builtin_mul_overflow(bytes, dimension, &bytes)) malformed("tensor {} has an invalid shape", in_quotes(name));
  if (bytes != range[1] - range[0]) malformed("tensor {} has a size that does not match its shape", in_quotes(name));
  return result;
}

// Returns the entries in the order of their data. They leave no gap and do not overlap, so that all tensors together
// are no larger than the file.
std::vector<Entry> parse_entries(const json& header, uint64_t data_bytes, const Malformed& malformed) {
  std::vector<Entry> entries;
  for (const auto& [name, entry] : header.items())
    if (name != kMetadata) entries.push_back(parse_entry(name, entry, data_bytes, malformed));
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  uint64_t end = 0;
  for (const Entry& entry : entries) {
    if (entry.begin < end) malformed("tensor {} overlaps another tensor", in_quotes(entry.name));
    if (entry.begin > end) malformed("there is a gap before tensor {}", in_quotes(entry.name));
    end = entry.end;
  }
  if (end < data_bytes) malformed("it has data after its last tensor");
  return entries;
}

Metadata parse_metadata(const json& header, const Malformed& malformed) {
  Metadata metadata;
  const auto found = header.find(kMetadata);
  if (found == header.end()) return metadata;
  if (!found->is_object()) malformed("its {} is not a list of names and texts", kMetadata);
  for (const auto& [name, text] : found->items()) {
    if (!text.is_string()) malformed("{} of its {} is not a text", in_quotes(name), kMetadata);
    metadata.emplace(name, text.get<std::string>());
  }
  return metadata;
}

struct Header {
  json content;
  uint64_t data_bytes = 0;  // of all tensors together
};

// Reads the header from the start of the file. The stream is then at the first tensor.
Header read_header(std::istream& file, const Malformed& malformed) {
  file.clear();
  const std::streamoff size = file.seekg(0, std::ios::end).tellg();
  file.seekg(0);
  if (size < 0 || !file) malformed("it is not a regular file");

  std::string head(static_cast<size_t>(std::min<std::streamoff>(size, kForeignHead)), '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  file.clear();
  file.seekg(0);
  if (head.size() <= sizeof(uint64_t) || head[sizeof(uint64_t)] != '{')
    if (const std::string kind = foreign_file(head, malformed.file()); !kind.empty()) malformed("{}", kind);

  uint64_t length = 0;
  if (!file.read(reinterpret_cast<char*>(&length), sizeof length) ||
      length > static_cast<uint64_t>(size) - sizeof length)
    malformed("it is shorter than its header says; copy or download it again");
  if (std::cmp_greater(length, kMaxHeaderBytes)) malformed("its header has more than {} bytes", kMaxHeaderBytes);
  std::string text;
  for (size_t begin = 0; begin < length; begin = text.size()) {  // in pieces: memory grows with what was read
    text.resize(std::min<size_t>(length, begin + std::max<size_t>(begin, 1 << 20)));
    if (!file.read(text.data() + begin, static_cast<std::streamsize>(text.size() - begin)))
      malformed("its header cannot be read");
  }
  constexpr int kMaxDepth = 3;  // the header, a tensor, its shape
  json header = read_json(text, malformed.text("its header"),
                          {.bytes = kMaxHeaderBytes, .values = kMaxHeaderValues, .depth = kMaxDepth});
  if (!header.is_object()) malformed("its header is not a JSON object");
  return {std::move(header), static_cast<uint64_t>(size) - sizeof length - length};
}

// IEEE binary16: a sign bit, 5 exponent bits, 10 fraction bits. The conversion to f32 is exact.
float float_of_f16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits} >> 15 << 31, exponent = bits >> 10 & 31, fraction = bits & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent == 0) return std::copysign(static_cast<float>(fraction) * 0x1p-24f, std::bit_cast<float>(sign));
  return std::bit_cast<float>(sign | (exponent + 127 - 15) << 23 | fraction << 13);
}

template <class Stored, class Convert>
std::vector<float> converted(std::istream& file, uint64_t bytes, Convert convert) {
  std::vector<Stored> stored(bytes / sizeof(Stored));
  file.read(reinterpret_cast<char*>(stored.data()), static_cast<std::streamsize>(bytes));
  std::vector<float> values(stored.size());
  std::transform(stored.begin(), stored.end(), values.begin(), convert);
  return values;
}

// Reads a tensor's data from the current position of the stream.
NamedTensor read_tensor(std::istream& file, Entry&& entry, const Malformed& malformed) {
  NamedTensor tensor{.name = std::move(entry.name), .shape = std::move(entry.shape)};
  const uint64_t bytes = entry.end - entry.begin;
  if (entry.dtype == "I64") {
    file.read(reinterpret_cast<char*>(&tensor.integer.emplace()), sizeof(int64_t));
  } else if (entry.dtype == "F16") {
    tensor.values = converted<uint16_t>(file, bytes, float_of_f16);
  } else if (entry.dtype == "BF16") {
    tensor.values = converted<uint16_t>(file, bytes, float_of_bf16);
  } else if (entry.dtype == "U8" || entry.dtype == "BOOL") {
    tensor.values = converted<uint8_t>(file, bytes, [](uint8_t value) { return static_cast<float>(value); });
    tensor.is_mask = true;
  } else if (entry.dtype == "F64") {
    tensor.values = converted<double>(file, bytes, [&](double value) {
      const bool fits = !std::isfinite(value) || std::abs(value) <= std::numeric_limits<float>::max();
      if (!fits) malformed("tensor {} holds {}, which is too large for F32", in_quotes(tensor.name), value);
      return static_cast<float>(value);
    });
  } else {
    tensor.values.resize(bytes / sizeof(float));
    file.read(reinterpret_cast<char*>(tensor.values.data()), static_cast<std::streamsize>(bytes));
  }
  if (!file) malformed("tensor {} cannot be read", in_quotes(tensor.name));
  return tensor;
}

uint64_t bytes_in_file(const NamedTensor& t) { return t.integer ? sizeof(int64_t) : t.values.size() * sizeof(float); }

uint64_t bytes_in_file(const TensorSource& t) {
  if (t.integer) return sizeof(int64_t);
  return std::accumulate(t.shape.begin(), t.shape.end(), uint64_t{sizeof(float)}, std::multiplies<>());
}

std::string_view bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::string_view bytes_of(const int64_t& integer) { return {reinterpret_cast<const char*>(&integer), sizeof integer}; }

// What stands before the data: the length of the header, and the header.
template <class AnyTensor>
std::string file_start(const std::vector<AnyTensor>& tensors, const Metadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  header[kMetadata] = metadata;
  header[kMetadata]["format"] = "pt";
  uint64_t end = 0;
  for (const AnyTensor& t : tensors) {
    const uint64_t begin = end;
    end += bytes_in_file(t);
    header[t.name] = {{"dtype", t.integer ? "I64" : "F32"}, {"shape", t.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

}  // namespace

std::string safetensors_content(const std::vector<NamedTensor>& tensors, const Metadata& metadata) {
  std::string content = file_start(tensors, metadata);
  size_t size = content.size();
  for (const NamedTensor& t : tensors) size += bytes_in_file(t);
  content.reserve(size);
  for (const NamedTensor& t : tensors) content.append(t.integer ? bytes_of(*t.integer) : bytes_of(t.values));
  return content;
}

void write_safetensors(const std::filesystem::path& path, const std::vector<TensorSource>& tensors,
                       const Metadata& metadata) {
  const std::string start = file_start(tensors, metadata);
  std::vector<float> values;
  replace_file(path, tensors.size() + 1, [&](size_t part) {
    if (part == 0) return std::string_view(start);
    const TensorSource& tensor = tensors[part - 1];
    if (tensor.integer) return bytes_of(*tensor.integer);
    values = std::vector<float>();  // frees them before the next are made
    values = tensor.values();
    DDP_EXPECT(bytes_of(values).size() == bytes_in_file(tensor));
    return bytes_of(values);
  });
}

std::map<std::string, NamedTensor> read_safetensors(const std::filesystem::path& path) {
  FileStream file(path);
  return read_safetensors(file, printable(path.native()));
}

Metadata read_safetensors_metadata(const std::filesystem::path& path) {
  FileStream file(path);
  return read_safetensors_metadata(file, printable(path.native()));
}

std::map<std::string, NamedTensor> read_safetensors(std::istream& file, const std::string& name) {
  const Malformed malformed(name);
  const Header header = read_header(file, malformed);
  parse_metadata(header.content, malformed);
  std::map<std::string, NamedTensor> tensors;
  for (Entry& entry : parse_entries(header.content, header.data_bytes, malformed)) {
    NamedTensor tensor = read_tensor(file, std::move(entry), malformed);
    tensors.emplace(tensor.name, std::move(tensor));
  }
  return tensors;
}

Metadata read_safetensors_metadata(std::istream& file, const std::string& name) {
  const Malformed malformed(name);
  const Header header = read_header(file, malformed);
  parse_entries(header.content, header.data_bytes, malformed);
  return parse_metadata(header.content, malformed);
}

}  // namespace ddp
