// The file manifest.json of a checkpoint: the size and CRC-32 of each other file, and a CRC-32 of its own text. A
// changed bit in any file is found.
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
  std::string crc32;  // eight hexadecimal digits
};

// Entries by file name. `file` is the manifest's name in messages, `names` are the files that it must have, `optional`
// those that it may have. Throws Error(Exit::data) where `text` differs from manifest_text() of its own entries.
std::map<std::string, FileEntry> parse_manifest(const std::string& text, const std::string& file,
                                                std::span<const std::string> names,
                                                std::span<const std::string> optional = {});
std::string manifest_text(const std::map<std::string, FileEntry>& entries);

// Reads the files `names` of `folder` and writes the manifest. Throws Error(Exit::data) where a file cannot be read,
// Error(Exit::output) where the manifest cannot be written.
void write_manifest(const std::filesystem::path& folder, std::span<const std::string> names);

// Throws Error(Exit::data) with the file's name where the manifest is invalid, or where a file of `names`, or one of
// `optional` that it has, is missing or differs from its entry. Ignores other files in the folder.
void verify_manifest(const std::filesystem::path& folder, std::span<const std::string> names,
                     std::span<const std::string> optional = {});

}  // namespace ddp
