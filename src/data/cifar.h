// Reads the binary version of CIFAR-10 and CIFAR-100: a record is the label (CIFAR-100: the coarse and the fine one), a
// byte each, and 32 x 32 pixels, first all red values, then green, then blue. The format is described at
// https://www.cs.toronto.edu/~kriz/cifar.html.
#pragma once

#include "data/dataset.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

struct Cifar {
  Datasets data;  // HWC
  std::vector<std::string> class_names, notes;
};

// Reads data_batch_1.bin to data_batch_5.bin, test_batch.bin and batches.meta.txt, or for CIFAR-100 train.bin, test.bin
// and fine_label_names.txt or coarse_label_names.txt, from the folder or from the folder in it that the downloaded
// archive makes. Throws Error(Exit::data) with the file, and with the record if it has one: missing files (the text
// says where to get them), no whole number of records, a label out of range, a wrong number of class names. A note says
// if a file has another number of records than the published one.
Cifar read_cifar(const std::filesystem::path& folder, bool cifar100, bool coarse);

// The folder that holds the training data: `folder` itself, or the one in it that the archive makes. Empty: none.
std::filesystem::path find_cifar(const std::filesystem::path& folder, bool cifar100);

// Appends the records of a file; pixels become HWC. `side`: 32. `name`: for messages.
struct CifarRecords {
  int label_bytes = 1, label_at = 0, classes = 10;
  int64_t side = 32;
  std::vector<uint8_t> pixels = {}, labels = {};

  void append(const std::string& name, std::string_view file);
};

}  // namespace ddp
