#include "checkpoint/manifest.h"

#include "core/durable_file.h"
#include "core/error.h"
#include "core/json_reader.h"
#include "core/printable.h"
#include "core/read_file.h"

#include <nlohmann/json.hpp>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <istream>
#include <map>
#include <string>
#include <vector>

namespace ddp {
namespace fs = std::filesystem;

namespace {

constexpr int kManifestFormat = 1;
constexpr int64_t kMaxManifestBytes = 1 << 16;

std::string crc_of(const char* data, size_t bytes) {
  return fmt::format("{:08x}", ::crc32_z(0, reinterpret_cast<const Bytef*>(data), bytes));
}

uint64_t size_of(std::istream& file) {
  const std::streamoff end = file.seekg(0, std::ios::end).tellg();
  file.seekg(0);
  return static_cast<uint64_t>(std::max<std::streamoff>(end, 0));
}

// `name`: for messages.
FileEntry entry_of(std::istream& file, const std::string& name) {
  FileEntry entry{.bytes = size_of(file), .crc32 = {}};
  std::vector<char> block(std::min<uint64_t>(entry.bytes, 1 << 18));
  uint64_t left = entry.bytes;
  uLong crc = 0;
  while (left > 0 && file) {
    file.read(block.data(), static_cast<std::streamsize>(std::min<uint64_t>(left, block.size())));
    crc = ::crc32_z(crc, reinterpret_cast<const Bytef*>(block.data()), static_cast<size_t>(file.gcount()));
    left -= static_cast<uint64_t>(file.gcount());
  }
  require(left == 0 && file, Exit::data, "cannot read {}: {}", name, std::strerror(errno));
  entry.crc32 = fmt::format("{:08x}", crc);
  return entry;
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
                                                std::span<const std::string> names,
                                                std::span<const std::string> optional) {
  std::map<std::string, FileEntry> entries;
  try {
    const auto manifest = read_json(text, file, {.bytes = kMaxManifestBytes});
    require(manifest.at("format") == kManifestFormat, Exit::data,
            "{} has an unknown format; this program reads format {}", file, kManifestFormat);
    std::vector<std::string> all(names.begin(), names.end());
    for (const std::string& name : optional)
      if (manifest.at("files").contains(name)) all.push_back(name);
    for (const std::string& name : all) {
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
  for (const std::string& name : names) {
    FileStream file(folder / name);
    entries[name] = entry_of(file, printable((folder / name).native()));
  }
  write_durable_file(folder / kManifestFile, manifest_text(entries));
}

void verify_manifest(const fs::path& folder, std::span<const std::string> names,
                     std::span<const std::string> optional) {
  const fs::path manifest = folder / kManifestFile;
  const auto entries =
      parse_manifest(read_whole_file(manifest, kMaxManifestBytes), printable(manifest.native()), names, optional);
  for (const auto& [name, entry] : entries) {
    FileStream file(folder / name);
    const std::string path = printable((folder / name).native());
    const uint64_t bytes = size_of(file);
    require(bytes == entry.bytes, Exit::data, "{} has {} bytes, its manifest says {}{}", path, bytes, entry.bytes,
            bytes < entry.bytes ? ": it is truncated" : "");
    require(entry_of(file, path).crc32 == entry.crc32, Exit::data,
            "{} does not match the checksum in its manifest: its content has changed", path);
  }
}

}  // namespace ddp
