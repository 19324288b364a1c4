// The file of --engine-file: the engines (cuDNN's, or the algorithms of a CPU's convolutions) that runs on one kind of
// device have measured. A run takes them over, so it does not measure again, and adds what it measures.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ddp {

using MeasuredEngines = std::map<std::string, std::vector<int64_t>>;  // MeasuredPass::fastest by name
using Identity = std::map<std::string, std::string>;                  // Backend::identity

// The content of the file; empty where there is none. Throws Error(Exit::data) for a file that no run wrote, and
// Error(Exit::output) where no run could write it.
std::string read_engine_file(const std::filesystem::path& file);

// The engines of a content. None for another device, other libraries or another precision, and for an empty content.
MeasuredEngines engines_of(const std::string& content, const Identity& identity);

// Replaces the file. Throws Error(Exit::output).
void write_engine_file(const std::filesystem::path& file, const Identity& identity, const MeasuredEngines& engines);

}  // namespace ddp
