// A folder of images of any size in the four IDX files of MNIST, with few pixel patterns that can be learned.
#pragma once

#include "tests/data/idx_files.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ddp::testing {

// Image i has label i % classes. Returns the options that read the folder.
inline std::string idx_data(const TempFolder& folder, uint32_t h, uint32_t w, uint32_t training, uint32_t test,
                            uint32_t classes = 10) {
  const auto write = [&](const std::string& name, uint32_t count) {
    Bytes pixels(size_t{count} * h * w), labels(count);
    for (uint32_t i = 0; i < count; ++i) {
      labels[i] = static_cast<uint8_t>(i % classes);
      for (uint32_t k = 0; k < h * w; ++k)
        pixels[size_t{i} * h * w + k] = static_cast<uint8_t>((k + 1) * (labels[i] + 3) * 37 + i * 11 % 50);
    }
    const auto put = [&](const std::string& end, const Bytes& bytes) {
      folder.write("data/" + name + end, std::string(bytes.begin(), bytes.end()));
    };
    put("-images-idx3-ubyte", idx_bytes(0x803, {count, h, w}, pixels));
    put("-labels-idx1-ubyte", idx_bytes(0x801, {count}, labels));
  };
  write("train", training);
  write("t10k", test);
  return " --dataset mnist --data-path " + (folder / "data").string();
}

}  // namespace ddp::testing
