// The data set that a run trains and evaluates on.
#pragma once

#include "data/dataset.h"

#include <cstdint>
#include <string>

namespace ddp {

struct DataConfig {
  std::string name = "fashion-mnist";
  std::string path = {};      // folder of the files; empty: that of the data set's Debian package
  int64_t train_samples = 0;  // 0: all
};

// Throws Error: Exit::usage for an unknown name or too many samples, Exit::data for missing or broken files.
Datasets load_data(const DataConfig& config);

// A hash of size, image shape, all labels and at least 256 images (or all) of the training set and of the test set.
uint64_t fingerprint(const Datasets& data);

}  // namespace ddp
