// The folder that holds a run's results.
#pragma once

#include <filesystem>
#include <string>

namespace ddp {

// Makes `wanted`, or a fresh runs/<time> where it is empty, and writes config.toml into it. Throws Error(Exit::output)
// where the folder cannot be written or holds a run already. Called by rank 0 only.
std::filesystem::path make_output_folder(const std::string& wanted, const std::string& config);

// Replaces the file. Throws Error(Exit::output).
void write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace ddp
