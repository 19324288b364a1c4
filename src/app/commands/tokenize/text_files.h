// The text files that ddp_train tokenize reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace ddp {

struct TextFile {
  std::filesystem::path path;
  int64_t bytes = 0;
};

// The files of these names, in order: a file is itself, a folder its files *.txt at any depth, sorted by path; links to
// folders in it are passed over. Throws Error(Exit::data) for a name that is missing, a folder without such files, and
// what is no regular file.
std::vector<TextFile> find_texts(std::span<const std::string> names);

}  // namespace ddp
