#include "data/catalog.h"

#include "core/error.h"
#include "data/idx.h"

#include <algorithm>
#include <string>

namespace ddp {
namespace {

namespace fs = std::filesystem;

struct Entry {
  std::string_view name, folder, how_to_get;
};

constexpr Entry kEntries[] = {
    {"fashion-mnist", "/usr/share/datasets/fashion-mnist", "apt-get install dataset-fashion-mnist"},
    {"mnist", "", "download the four files from https://ossci-datasets.s3.amazonaws.com/mnist/"},
};
constexpr int kClasses = 10;
constexpr std::string_view kNames =
    "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, each with or "
    "without .gz";

fs::path find(const Entry& entry, const fs::path& folder, std::string_view stem) {
  for (const char* suffix : {"", ".gz"}) {
    fs::path file = folder / fmt::format("{}{}", stem, suffix);
    if (std::error_code none; fs::exists(file, none)) return file;
  }
  fail(Exit::data, "{}: no {} in {}: {}, or give --data-path FOLDER that holds {}", entry.name, stem, folder.string(),
       entry.how_to_get, kNames);
}

std::unique_ptr<Dataset> open(const Entry& entry, const fs::path& folder, std::string_view part, int64_t most_bytes) {
  const fs::path images = find(entry, folder, fmt::format("{}-images-idx3-ubyte", part));
  return read_idx(images, find(entry, folder, fmt::format("{}-labels-idx1-ubyte", part)), kClasses, most_bytes);
}

}  // namespace

Datasets open_datasets(std::string_view name, const fs::path& path, int64_t most_bytes) {
  const auto entry = std::ranges::find(kEntries, name, &Entry::name);
  if (entry == std::end(kEntries)) {
    std::string known;
    for (const Entry& e : kEntries) known += fmt::format("{}{}", known.empty() ? "" : ", ", e.name);
    fail(Exit::usage, "unknown dataset {}: choose one of {}", name, known);
  }
  const fs::path folder = path.empty() ? fs::path(entry->folder) : path;
  require(!folder.empty(), Exit::usage, "{} needs --data-path FOLDER: {}; FOLDER holds {}", name, entry->how_to_get,
          kNames);
  Datasets data{open(*entry, folder, "train", most_bytes), open(*entry, folder, "t10k", most_bytes)};
  const ImageShape train = data.train->image_shape(), test = data.test->image_shape();
  require(train == test, Exit::data,
          "{}: the training images are {}x{}x{}, the test images {}x{}x{}; the four files must be of one data set",
          folder.string(), train.h, train.w, train.c, test.h, test.w, test.c);
  return data;
}

}  // namespace ddp
