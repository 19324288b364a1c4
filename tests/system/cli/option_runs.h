// Short runs for tests of what the options do: mlp on 64 images, four steps an epoch, at a rate of 1.
#pragma once

#include "tests/system/cli/few_images.h"
#include "tests/system/cli/run_folder.h"

#include <map>
#include <string>
#include <utility>

namespace ddp::testing {

namespace fs = std::filesystem;

inline const std::string kOneStep = "--max-steps 1 ";

class OptionRuns : public ::testing::Test {
 protected:
  static constexpr int kImages = 64, kBatch = 16;

  struct Run {
    fs::path folder;
    std::string output;

    const Weights& weights() {
      if (weights_.empty()) weights_ = read_weights(folder / "model.safetensors");
      return weights_;
    }
    std::string bytes() const { return read_file(folder / "model.safetensors"); }
    template <class T>
    std::vector<T> steps(const char* key) const {
      return values_of<T>(folder, "step", key);
    }

   private:
    Weights weights_;
  };

  OptionRuns() {
    few_images(folder_ / "images", kImages, 32);
    folder_.write("common.toml",
                  fmt::format("model = \"mlp\"\ndata-path = \"{}\"\nbatch-size = {}\nlr = 1\nthreads = 1\n"
                              "save-every = \"never\"\neval-every = 0\nprint-freq = 0\n",
                              (folder_ / "images").string(), kBatch));
  }

  Outcome start(const std::string& options, int ranks = 0) const {
    return program(ranks, fmt::format("--config {} {}", (folder_ / "common.toml").string(), options));
  }

  // A run with these options in place of the common ones. Equal arguments share a run.
  Run& run(const std::string& options, int ranks = 0) {
    const auto [place, is_new] = runs_.try_emplace({options, ranks});
    Run& run = place->second;
    if (!is_new) return run;
    run.folder = folder_ / fmt::format("run{}", runs_.size());
    const Outcome outcome = start(fmt::format("{} --output-dir {}", options, run.folder.string()), ranks);
    EXPECT_EQ(outcome.code, 0) << options << ": " << outcome.output;
    run.output = outcome.output;
    return run;
  }

  TempFolder folder_;

 private:
  std::map<std::pair<std::string, int>, Run> runs_;
};

}  // namespace ddp::testing
