// The file manifest.json of a checkpoint: size and CRC-32 of its other files, and a CRC-32 of itself, so that no bit of
// any of them can change unnoticed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>

namespace ddp {

inline constexpr const char* kManifestFile = "manifest.json";

struct FileEntry {
  uint64_t bytes = 0;
  std::string crc32;  // in hexadecimal
};

// By name. Throws Error(Exit::data) that names the file where the text is not as manifest_text() would be.
std::map<std::string, FileEntry> parse_manifest(const std::string& text, const std::string& file,
                                                std::span<const std::string> names);
std::string manifest_text(const std::map<std::string, FileEntry>& entries);

// Reads back the files of `folder` with these names, and writes its manifest. Throws Error(Exit::data) where one cannot
// be read, Error(Exit::output) where the manifest cannot be written.
void write_manifest(const std::filesystem::path& folder, std::span<const std::string> names);

// Throws Error(Exit::data) that names the file where the manifest is not as write_manifest would write it for these
// names, or a file is not as it says. Other files of the folder do not matter.
void verify_manifest(const std::filesystem::path& folder, std::span<const std::string> names);

}  // namespace ddp
