#include "checkpoint/manifest.h"

#include "core/durable_file.h"
#include "core/error.h"

#include <nlohmann/json.hpp>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace ddp {
namespace fs = std::filesystem;

namespace {

constexpr int kManifestFormat = 1;
constexpr uint64_t kMaxManifestBytes = 1 << 16;

std::string crc_of(const char* data, size_t bytes) {
  return fmt::format("{:08x}", ::crc32_z(0, reinterpret_cast<const Bytef*>(data), bytes));
}

uint64_t size_of(const fs::path& path) {
  std::error_code error;
  require(fs::exists(path, error), Exit::data, "{} is missing", path.string());
  require(fs::is_regular_file(path, error), Exit::data, "{} is not a file", path.string());
  const uint64_t bytes = fs::file_size(path, error);
  require(!error, Exit::data, "cannot read {}: {}", path.string(), error.message());
  return bytes;
}

FileEntry entry_of(const fs::path& path) {
  FileEntry entry{.bytes = size_of(path), .crc32 = {}};
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::vector<char> block(std::min<uint64_t>(entry.bytes, 1 << 18));
  uint64_t left = entry.bytes;
  uLong crc = 0;
  while (left > 0 && file) {
    file.read(block.data(), static_cast<std::streamsize>(std::min<uint64_t>(left, block.size())));
    crc = ::crc32_z(crc, reinterpret_cast<const Bytef*>(block.data()), static_cast<size_t>(file.gcount()));
    left -= static_cast<uint64_t>(file.gcount());
  }
  require(left == 0 && file, Exit::data, "cannot read {}: {}", path.string(), std::strerror(errno));
  entry.crc32 = fmt::format("{:08x}", crc);
  return entry;
}

std::string read_text(const fs::path& path) {
  const uint64_t bytes = size_of(path);
  require(bytes <= kMaxManifestBytes, Exit::data, "{} has {} bytes, too many for a manifest", path.string(), bytes);
  std::string text(bytes, '\0');
  std::ifstream file(path, std::ios::binary);
  require(file.read(text.data(), static_cast<std::streamsize>(bytes)).good(), Exit::data, "cannot read {}",
          path.string());
  return text;
}

}  // namespace

// Each set of entries has exactly one text: a manifest is valid if it equals the text of its own entries.
std::string manifest_text(const std::map<std::string, FileEntry>& entries) {
  nlohmann::ordered_json manifest;
  manifest["format"] = kManifestFormat;
  for (const auto& [name, entry] : entries) manifest["files"][name] = {{"bytes", entry.bytes}, {"crc32", entry.crc32}};
  const std::string text = manifest.dump(2);
  manifest["crc32"] = crc_of(text.data(), text.size());
  return manifest.dump(2) + "\n";
}

std::map<std::string, FileEntry> parse_manifest(const std::string& text, const std::string& file,
                                                std::span<const std::string> names) {
  std::map<std::string, FileEntry> entries;
  try {
    const auto manifest = nlohmann::json::parse(text);
    require(manifest.at("format") == kManifestFormat, Exit::data,
            "{} has an unknown format; this program reads format {}", file, kManifestFormat);
    for (const std::string& name : names) {
      const auto& entry = manifest.at("files").at(name);
      require(entry.at("bytes").is_number_unsigned(), Exit::data, "{}: the size of {} is not a whole number", file,
              name);
      entries[name] = {entry.at("bytes").get<uint64_t>(), entry.at("crc32").get<std::string>()};
    }
    require(manifest_text(entries) == text, Exit::data, "{} does not match its own checksum", file);
  } catch (const nlohmann::json::exception& e) {
    fail(Exit::data, "{} is not a checkpoint's manifest: {}", file, e.what());
  }
  return entries;
}

void write_manifest(const fs::path& folder, std::span<const std::string> names) {
  std::map<std::string, FileEntry> entries;
  for (const std::string& name : names) entries[name] = entry_of(folder / name);
  write_durable_file(folder / kManifestFile, manifest_text(entries));
}

void verify_manifest(const fs::path& folder, std::span<const std::string> names) {
  const fs::path manifest = folder / kManifestFile;
  const auto entries = parse_manifest(read_text(manifest), manifest.string(), names);
  for (const auto& [name, entry] : entries) {
    const fs::path path = folder / name;
    const uint64_t bytes = size_of(path);
    require(bytes == entry.bytes, Exit::data, "{} has {} bytes, its manifest says {}{}", path.string(), bytes,
            entry.bytes, bytes < entry.bytes ? ": it is truncated" : "");
    require(entry_of(path).crc32 == entry.crc32, Exit::data,
            "{} does not match the checksum in its manifest: its content has changed", path.string());
  }
}

}  // namespace ddp
