// The names in a folder of checkpoints. Names of temporary files and folders begin with a dot.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace ddp {

std::string checkpoint_name(int64_t step);  // "step-00001234"

// ".NAME.tmp-PID"
std::string temporary_name(const std::string& name);

// Deletes all files and folders with temporary names, of any process: a run has one writer. Ignores errors.
void remove_leftovers(const std::filesystem::path& folder);

}  // namespace ddp
