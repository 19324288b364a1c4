#include "train/safetensors.h"

#include "core/error.h"

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <numeric>
#include <string_view>

namespace ddp {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

void write_all(int file, const void* data, size_t bytes, const std::filesystem::path& path) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(file, from, bytes);
    if (written < 0 && errno == EINTR) continue;
    require(written > 0, Exit::output, "cannot write {}: {}; make room or choose another --output-dir", path.string(),
            std::strerror(errno));
    from += written;
    bytes -= static_cast<size_t>(written);
  }
}

class File {
 public:
  explicit File(const std::filesystem::path& path) : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644)) {
    require(file_ >= 0, Exit::output, "cannot create {}: {}; choose another --output-dir", path.string(),
            std::strerror(errno));
  }
  ~File() { ::close(file_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return file_; }

 private:
  int file_;
};

int64_t product(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors) {
  nlohmann::ordered_json header;
  size_t end = 0;
  for (const NamedTensor& t : tensors) {
    const size_t begin = end;
    end += t.integer ? sizeof(int64_t) : t.values.size() * sizeof(float);
    header[t.name] = {{"dtype", t.integer ? "I64" : "F32"}, {"shape", t.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();

  const std::filesystem::path temporary = path.string() + ".tmp";
  {
    const File file(temporary);
    write_all(file.get(), &length, sizeof length, temporary);
    write_all(file.get(), text.data(), text.size(), temporary);
    for (const NamedTensor& t : tensors) {
      write_all(file.get(), t.values.data(), t.values.size() * sizeof(float), temporary);
      if (t.integer) write_all(file.get(), &*t.integer, sizeof *t.integer, temporary);
    }
    require(::fsync(file.get()) == 0, Exit::output, "cannot flush {} to the disk: {}", temporary.string(),
            std::strerror(errno));
  }
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  require(!error, Exit::output, "cannot rename {} to {}: {}", temporary.string(), path.string(), error.message());
}

std::map<std::string, NamedTensor> read_safetensors(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  require(file.good(), Exit::data, "cannot read {}: {}", path.string(), std::strerror(errno));
  const auto size = static_cast<uint64_t>(file.tellg());
  file.seekg(0);
  const auto broken = [&](std::string_view why) {
    fail(Exit::data, "{} is not a valid safetensors file: {}", path.string(), why);
  };

  uint64_t length = 0;
  if (!file.read(reinterpret_cast<char*>(&length), sizeof length) || length > size - sizeof length)
    broken("it is shorter than its header says");
  std::string text(length, '\0');
  file.read(text.data(), static_cast<std::streamsize>(length));
  const uint64_t data_begin = sizeof length + length, data_bytes = size - data_begin;

  std::map<std::string, NamedTensor> tensors;
  try {
    const auto header = nlohmann::json::parse(text);
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      const auto dtype = entry.at("dtype").get<std::string>();
      const bool integer = dtype == "I64";
      NamedTensor tensor{name, entry.at("shape").get<std::vector<int64_t>>(), {}, {}};
      if (dtype != "F32" && !(integer && tensor.shape.empty()))
        broken(fmt::format("tensor {} is {}, only F32 and single I64 numbers are read", name, dtype));
      const size_t width = integer ? sizeof(int64_t) : sizeof(float);
      const auto range = entry.at("data_offsets").get<std::vector<uint64_t>>();
      if (range.size() != 2 || range[0] > range[1] || range[1] > data_bytes)
        broken(fmt::format("tensor {} lies outside the file, which may be truncated", name));
      if ((range[1] - range[0]) != static_cast<uint64_t>(product(tensor.shape)) * width)
        broken(fmt::format("tensor {} has another size than its shape", name));
      void* to = nullptr;
      if (integer) {
        to = &tensor.integer.emplace(0);
      } else {
        tensor.values.resize((range[1] - range[0]) / width);
        to = tensor.values.data();
      }
      file.seekg(static_cast<std::streamoff>(data_begin + range[0]));
      file.read(static_cast<char*>(to), static_cast<std::streamsize>(range[1] - range[0]));
      if (!file) broken(fmt::format("tensor {} cannot be read", name));
      tensors.emplace(name, std::move(tensor));
    }
  } catch (const nlohmann::json::exception& e) {
    broken(e.what());
  }
  return tensors;
}

}  // namespace ddp
