#include "data/token_files.h"

#include "core/error.h"
#include "core/printable.h"
#include "data/known_names.h"
#include "data/token_file.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

namespace ddp {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kCifar100Record = 2 + 3 * 32 * 32;  // bytes
constexpr std::string_view kValWords[] = {"val", "validation", "valid"}, kTestWords[] = {"test", "testing"};

bool is_bin(std::string_view name) {
  return name.size() >= 4 && equal_but_for_case(name.substr(name.size() - 4), ".bin");
}

// Names of files *.bin, sorted byte by byte.
std::vector<std::string> bins_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::string name = entry->path().filename().native();
    if (!is_hidden(name) && is_bin(name)) names.push_back(std::move(name));
  }
  require(!error, Exit::data, "{}: cannot read it: {}", printable(folder.native()), error.message());
  std::ranges::sort(names);
  return names;
}

// False for a file with a fault: it is named where the file is read for its tokens.
bool has_header(const fs::path& path) try {
  std::array<uint8_t, kTokenHeaderBytes> first{};
  const ReadResult result = read_at(open_for_reading(path).get(), 0, first);
  return parse_token_header(printable(path.native()), std::span(first).first(result.bytes)).has_value();
} catch (const Error&) {
  return false;
}

}  // namespace

TokenFiles find_token_files(const fs::path& path) {
  std::error_code error;
  TokenFiles files;
  if (!fs::is_directory(path, error)) {
    files.train = {path};
    return files;
  }
  std::vector<fs::path> test;
  const std::vector<std::string> names = bins_in(path);
  for (const std::string& name : names) {
    const bool train = has_word(name, kTrainNames), val = has_word(name, kValWords), tests = has_word(name, kTestWords);
    require(!train || !(val || tests), Exit::data, "{}: its name says training and validation data; rename it",
            printable((path / name).native()));
    if (train) files.train.push_back(path / name);
    if (val) files.val.push_back(path / name);
    if (!val && tests) test.push_back(path / name);
  }
  require(!files.train.empty(), Exit::data,
          "{}: has no token file *.bin with `train` in its name; found {}; rename the files, or name one file with "
          "--data-path",
          printable(path.native()), names.empty() ? "no *.bin" : first_names(names));
  if (files.val.empty())
    files.val = std::move(test);
  else if (!test.empty())
    files.notes.push_back(fmt::format("not read: {}, because there are files with `val` in their names",
                                      printable(test.front().filename().native()) +
                                          (test.size() > 1 ? fmt::format(" and {} more", test.size() - 1) : "")));
  return files;
}

TokenSigns token_signs(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error))
    return fs::is_regular_file(path, error) && is_bin(path.native()) ? TokenSigns::name : TokenSigns::none;
  TokenSigns signs = TokenSigns::none;
  for (const std::string& name : bins_in(path)) {
    const fs::path file = path / name;
    if (!has_word(name, kTrainNames) || !fs::is_regular_file(file, error)) continue;
    if (has_header(file)) return TokenSigns::header;
    const bool of_cifar = name == "train.bin" && fs::exists(path / "test.bin", error) &&
                          fs::file_size(file, error) % kCifar100Record == 0;
    if (!of_cifar) signs = TokenSigns::name;
  }
  return signs;
}

}  // namespace ddp
