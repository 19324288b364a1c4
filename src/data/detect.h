// Finds out which data set a folder holds (--dataset auto).
#pragma once

#include <filesystem>
#include <string>

namespace ddp {

// Returns the value of --dataset: "cifar10" or "cifar100" (the binary version, also in the folder that the archive
// makes), "mnist" (the IDX files; those of Fashion-MNIST look alike), "tokens" for token files (data/token_files.h), or
// "folder" for any other folder with folders or pictures in it. Reads names, and headers of token files. Throws
// Error(Exit::data) with what was found and what is expected.
std::string detect_dataset(const std::filesystem::path& folder);

// "cifar10", "cifar100" or "mnist" where the folder holds files of these names, else "".
std::string known_files_in(const std::filesystem::path& folder);

}  // namespace ddp
