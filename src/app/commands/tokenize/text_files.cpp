#include "app/commands/tokenize/text_files.h"

#include "core/error.h"
#include "core/printable.h"
#include "core/read_file.h"

#include <algorithm>

namespace ddp {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> texts_below(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->path().extension() == ".txt" && !entry->is_directory(ignored)) found.push_back(entry->path());
  }
  require(!error, Exit::data, "{}: cannot read it: {}", printable(folder.native()), error.message());
  require(!found.empty(), Exit::data, "{}: has no files *.txt; give another folder, or the files",
          printable(folder.native()));
  std::ranges::sort(found, {}, [](const fs::path& path) -> const std::string& { return path.native(); });
  return found;
}

TextFile text_file(const fs::path& path) { return {path, size_of(open_for_reading(path), printable(path.native()))}; }

}  // namespace

std::vector<TextFile> find_texts(std::span<const std::string> names) {
  std::vector<TextFile> files;
  for (const std::string& name : names) {
    std::error_code ignored;
    if (!fs::is_directory(name, ignored))
      files.push_back(text_file(name));
    else
      for (const fs::path& path : texts_below(name)) files.push_back(text_file(path));
  }
  return files;
}

}  // namespace ddp
