// A network that was trained on three colours, for the tests of the commands that use a trained network.
#pragma once

#include "tests/system/cli/png.h"
#include "tests/system/cli/program.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace ddp::testing {

namespace fs = std::filesystem;
using nlohmann::json;

inline double accuracy_of(const fs::path& run) {
  return json::parse(read_file(run / "summary.json")).at("test_accuracy").get<double>();
}

// Writes the weights of `from` without metadata.
inline void strip_metadata(const fs::path& from, const fs::path& to) {
  const std::string file = read_file(from);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  json header = json::parse(file.substr(8, length));
  header.erase("__metadata__");
  const std::string text = header.dump();
  const uint64_t shorter = text.size();
  std::ofstream(to, std::ios::binary) << std::string(reinterpret_cast<const char*>(&shorter), 8) << text
                                      << file.substr(8 + length);
}

// Three colours, which are easy to tell apart, in pictures of different sizes. Two validation pictures are in the
// folder of another class.
class ThreeColours : public ::testing::Test {
 protected:
  ThreeColours() {
    const std::vector<std::string> classes = {"blue, deep", "green\nlight", "rot"};
    for (const char* part : {"train", "val"})
      for (int label = 0; label < 3; ++label) {
        fs::create_directories(folder / "data" / part / classes[label]);
        for (int i = 0; i < (part[0] == 't' ? 16 : 8); ++i)
          write(folder / "data" / part / classes[label] / fmt::format("{}.png", i),
                part[0] == 'v' && i == 0 && label > 0 ? 0 : label);
      }
    const Outcome outcome = program(
        0, fmt::format("--data-path {} --model keras-convnet --train-crop-size 32 --val-resize-size 36 --batch-size 16 "
                       "--epochs 4 --lr 0.05 --mean 0.5 --std 0.25 --output-dir {}",
                       (folder / "data").string(), run.string()));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
  }

  void write(const fs::path& path, int label) {
    const int w = 40 + static_cast<int>(random() % 30), h = 40 + static_cast<int>(random() % 30);
    std::vector<uint8_t> pixels(static_cast<size_t>(w) * h * 3);
    for (size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = static_cast<uint8_t>((i % 3 == 2u - label ? 150 : 50) + random() % 60);
    write_png(path, w, h, 3, pixels);
  }

  TempFolder folder;
  const fs::path run = folder / "run";
  std::mt19937 random{7};
};

}  // namespace ddp::testing
