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

struct FoundPictures {
  std::vector<NamedPicture> pictures = {};
  // Files of folders that are not read: pictures of other kinds, and other files.
  std::vector<std::string> unread = {}, others = {};

  // A warning that names a few of them and counts the others; empty: there are none.
  std::string left_out() const;
};

// In the order of `names`. A folder stands for all files below it whose names end in .jpg, .jpeg, .png or .webp, in any
// case, sorted by path; hidden files and folders, and folders of systems (data/known_names.h), are passed over, links
// are followed. "-" stands for the names in `list`, one a line.
FoundPictures find_pictures(const std::vector<std::string>& names, std::istream& list);

}  // namespace ddp
