// The pictures that a command line names.
#pragma once

#include <istream>
#include <string>
#include <vector>

namespace ddp {

struct NamedPicture {
  std::string path;
  std::string error = {};  // why there is no picture; empty: a file to read, which may be missing or broken
};

// In the order of `names`. A folder stands for all files below it whose names end in .jpg, .jpeg or .png, in any case,
// sorted by path; files and folders whose names begin with a dot are passed over, links are followed. "-" stands for
// the names in `list`, one a line.
std::vector<NamedPicture> find_pictures(const std::vector<std::string>& names, std::istream& list);

}  // namespace ddp
