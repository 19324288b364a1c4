// The token files of a run, by their names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ddp {

// Files *.bin, in any case, in the order of their names.
struct TokenFiles {
  std::vector<std::filesystem::path> train;  // in a folder: names with the word `train`
  std::vector<std::filesystem::path> val;    // names with the word `val`; where there are none, with `test`
  std::vector<std::string> notes;
};

// `path`: a folder; any other path is training data. Reads names only; hidden files are passed over. No letter stands
// beside a word; `training`, `validation`, `valid` and `testing` are words too. Throws Error(Exit::data) for a folder
// that cannot be read or has no training files, and for a name that has both `train` and `val` or `test`.
TokenFiles find_token_files(const std::filesystem::path& path);

// What says that a path holds tokens: a file *.bin, or a training file in a folder. The files of CIFAR-100 are no token
// files.
enum class TokenSigns : uint8_t { none, name, header };  // header: a training file of the folder has one
TokenSigns token_signs(const std::filesystem::path& path);

}  // namespace ddp
