// Returns the first line of a file, such as a small file under /proc; empty if the file cannot be read.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace ddp {

inline std::string first_line(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

}  // namespace ddp
