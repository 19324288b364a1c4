#include "data/cifar.h"

#include "core/error.h"
#include "core/printable.h"
#include "core/read_file.h"
#include "data/memory_dataset.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace ddp {
namespace {

namespace fs = std::filesystem;

struct CifarEdition {
  const char *name, *archive_folder, *archive, *names, *coarse_names;
  std::vector<const char*> train;
  const char* test;
  int64_t records;  // of each training file as published
  int classes;
};

const CifarEdition& cifar_edition(bool cifar100) {
  static const CifarEdition kCifar10{
      .name = "cifar10",
      .archive_folder = "cifar-10-batches-bin",
      .archive = "cifar-10-binary.tar.gz",
      .names = "batches.meta.txt",
      .coarse_names = nullptr,
      .train = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
      .test = "test_batch.bin",
      .records = 10'000,
      .classes = 10};
  static const CifarEdition kCifar100{.name = "cifar100",
                                      .archive_folder = "cifar-100-binary",
                                      .archive = "cifar-100-binary.tar.gz",
                                      .names = "fine_label_names.txt",
                                      .coarse_names = "coarse_label_names.txt",
                                      .train = {"train.bin"},
                                      .test = "test.bin",
                                      .records = 50'000,
                                      .classes = 100};
  return cifar100 ? kCifar100 : kCifar10;
}

constexpr int64_t kCifarTestRecords = 10'000, kCifarMostBytes = int64_t{1} << 31, kCifarNameBytes = 100'000;

bool is_there(const fs::path& path) {
  std::error_code none;
  return fs::exists(path, none);
}

// One name a line; empty lines are passed over.
std::vector<std::string> read_names(const fs::path& file, int classes) {
  const std::string text = read_whole_file(file, kCifarNameBytes);
  std::vector<std::string> names;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string name = text.substr(begin, end - begin);
    if (name.ends_with('\r')) name.pop_back();
    if (!name.empty()) names.push_back(std::move(name));
    begin = end + 1;
  }
  require(static_cast<int>(names.size()) == classes, Exit::data,
          "{}: has {} names of classes, not {}; download the file again", printable(file.native()), names.size(),
          classes);
  return names;
}

void require_files(const CifarEdition& e, const fs::path& folder, const char* names) {
  std::vector<const char*> needed = e.train;
  needed.insert(needed.end(), {e.test, names});
  std::string missing;
  for (const char* file : needed)
    if (!is_there(folder / file)) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", file);
  require(missing.empty(), Exit::data,
          "{}: no {} in {}: download the binary version, https://www.cs.toronto.edu/~kriz/{}, unpack it with tar xf, "
          "and give --data-path {}",
          e.name, missing, printable(folder.native()), e.archive, e.archive_folder);
}

}  // namespace

void CifarRecords::append(const std::string& name, std::string_view file) {
  const size_t image = static_cast<size_t>(side * side), record = label_bytes + 3 * image;
  require(!file.empty() && file.size() % record == 0, Exit::data,
          "{}: has {} bytes, which is not a multiple of a record's {}; download the file again", name, file.size(),
          record);
  const size_t count = file.size() / record;
  for (size_t r = 0; r < count; ++r) {
    const uint8_t* from = reinterpret_cast<const uint8_t*>(file.data()) + r * record;
    const int label = from[label_at];
    if (label >= classes)
      fail(Exit::data, "{}: the label of record {} is {}, but there are {} classes, 0 to {}; download the file again",
           name, r, label, classes, classes - 1);
    labels.push_back(static_cast<uint8_t>(label));
    from += label_bytes;
    const size_t begin = pixels.size();
    pixels.resize(begin + 3 * image);
    uint8_t* to = pixels.data() + begin;
    for (size_t p = 0; p < image; ++p)
      for (size_t c = 0; c < 3; ++c) *to++ = from[c * image + p];
  }
}

fs::path find_cifar(const fs::path& folder, bool cifar100) {
  const CifarEdition& e = cifar_edition(cifar100);
  for (const fs::path& place : {folder, folder / e.archive_folder})
    if (is_there(place / e.train.front()) && is_there(place / e.names)) return place;
  return {};
}

Cifar read_cifar(const fs::path& folder, bool cifar100, bool coarse) {
  DDP_EXPECT(cifar100 || !coarse);
  const CifarEdition& e = cifar_edition(cifar100);
  const fs::path found = find_cifar(folder, cifar100), place = found.empty() ? folder : found;
  const char* const names = coarse ? e.coarse_names : e.names;
  require_files(e, place, names);

  constexpr int kCoarseClasses = 20;
  Cifar result;
  const int classes = coarse ? kCoarseClasses : e.classes;
  result.class_names = read_names(place / names, classes);
  const auto read = [&](const std::vector<const char*>& files, int64_t published) {
    CifarRecords records{.label_bytes = cifar100 ? 2 : 1, .label_at = cifar100 && !coarse ? 1 : 0, .classes = classes};
    for (const char* file : files) {
      const std::string name = printable((place / file).native());
      const size_t before = records.labels.size();
      records.append(name, read_whole_file(place / file, kCifarMostBytes));
      if (const size_t count = records.labels.size() - before; count != static_cast<size_t>(published))
        result.notes.push_back(
            fmt::format("warning: {} has {} images; the published file has {}", name, count, published));
    }
    return std::make_unique<MemoryDataset>(ImageShape{records.side, records.side, 3}, classes,
                                           std::move(records.pixels), std::move(records.labels));
  };
  result.data.train = read(e.train, e.records);
  result.data.test = read({e.test}, kCifarTestRecords);
  return result;
}

}  // namespace ddp
