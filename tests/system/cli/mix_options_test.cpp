// What mixing, erasing and weights of labels do in the program.
#include "core/error.h"
#include "tests/system/cli/npy.h"
#include "tests/system/cli/option_runs.h"

#include <algorithm>

namespace ddp::testing {
namespace {

class MixOptions : public OptionRuns {
 protected:
  // Relative to the change of the weights in a run without these options.
  double effect(const std::string& options, const std::string& than = "", int ranks = 0) {
    const Weights &plain = run(kOneStep).weights(), &initial = run(kOneStep + "--lr 0").weights();
    const Weights& other = than.empty() ? plain : run(kOneStep + than).weights();
    return norm(run(kOneStep + options, ranks).weights() - other) / norm(plain - initial);
  }
  std::vector<float> shown(const std::string& options, const char* name) {
    const fs::path file = folder_ / (std::string(name) + ".npy");
    const Outcome outcome = program(0, fmt::format("show --data-path {} --batches {} --steps 1 --batch-size {} {}",
                                                   (folder_ / "images").string(), file.string(), kImages, options));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    output_ = outcome.output;
    return read_npy<float>(file, "<f4", "(64, 1, 28, 28, )");
  }
  void expect_refused(Exit code, const std::string& options, const std::string& message, int ranks = 0) {
    const Outcome outcome = start(options, ranks);
    EXPECT_EQ(outcome.code, static_cast<int>(code)) << outcome.output;
    EXPECT_EQ(count(outcome.output, message), 1) << outcome.output;
  }

  std::string output_;
};

// A share near 0 or 1 makes a batch of a batch, in another order at most. Another share makes another gradient, which
// is that of three ranks.
TEST_F(MixOptions, MixEachSampleWithTheOneBeforeIt) {
  EXPECT_LE(effect("--mixup-alpha 1e-6"), 1e-4);
  for (const std::string options : {"--mixup-alpha 1000", "--cutmix-alpha 1"}) {
    EXPECT_GE(effect(options), 0.05) << options;
    EXPECT_LE(effect(options, options, 3), 1e-4) << options;
  }
  EXPECT_EQ(count(run(kOneStep + "--mixup-alpha 1000").output, "samples are mixed"), 1);
  const auto plain = shown("", "plain"), mixed = shown("--mixup-alpha 1", "mixed");
  EXPECT_EQ(plain, mixed);
  EXPECT_EQ(count(output_, "before --mixup-alpha or --cutmix-alpha mixes them"), 1) << output_;
}

TEST_F(MixOptions, RandomEraseErasesABoxOfEachPicture) {
  const auto plain = shown("--mean 0.5 --std 0.5", "plain"),
             erased = shown("--mean 0.5 --std 0.5 --random-erase 1", "erased");
  ASSERT_EQ(plain.size(), erased.size());
  EXPECT_EQ(count(output_, "erases 1"), 1) << output_;
  constexpr size_t kPixels = 28 * 28;
  for (size_t image = 0; image < kImages; ++image) {
    size_t changed = 0;
    for (size_t i = image * kPixels; i < (image + 1) * kPixels; ++i) {
      if (erased[i] == plain[i]) continue;
      EXPECT_EQ(erased[i], 0);
      ++changed;
    }
    EXPECT_GE(changed, kPixels / 60) << image;
    EXPECT_LE(changed, 0.37 * kPixels) << image;
  }
}

// With logits of 0 the gradient of the last bias is 1/10 - the weighted share of the class.
TEST_F(MixOptions, LabelWeightsWeighTheGradient) {
  const std::string all = fmt::format("{}--batch-size {} --init normal:1e-20 ", kOneStep, kImages);
  const std::string labels = read_file(folder_ / "images" / "train-labels-idx1-ubyte").substr(8);
  std::string file = "class,weight\n";
  Doubles shares(10);
  double sum = 0;
  for (int k = 0; k < 10; ++k) {
    const auto samples = static_cast<double>(std::ranges::count(labels, static_cast<char>(k)));
    file += fmt::format("{},{}\n", k, 0.5 * k + 0.25);
    sum += shares[k] = samples * (0.5 * k + 0.25);
  }
  folder_.write("weights.csv", file);
  const std::string weighted = fmt::format("{}--label-weights {} ", all, (folder_ / "weights.csv").string());
  const Doubles expected = shares / sum - 0.1;
  for (const int ranks : {0, 3}) {
    const Doubles bias = run(weighted, ranks).weights().at("3.bias");
    EXPECT_LE(norm(Doubles(bias - expected)), 1e-5 * norm(expected)) << ranks;
  }
  EXPECT_LE(norm(run(all + "--label-weights balanced", 2).weights().at("3.bias")), 1e-6);
  const Doubles clipped = run(weighted + "--clip-grad-norm 0.125").weights().at("3.bias");
  EXPECT_NEAR(norm(clipped), 0.125, 1e-5);
}

TEST_F(MixOptions, ContinueInsideAnEpochWithTheSameBytes) {
  const std::string options = "--save-every 100steps --mixup-alpha 0.4 --cutmix-alpha 1 --random-erase 0.5 ";
  const std::string whole = run(options + "--max-steps 7", 2).bytes();
  const fs::path part = run(options + "--max-steps 3", 2).folder;
  const Outcome outcome = program(2, fmt::format("--resume {} --max-steps 7", part.string()));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(read_file(part / "model.safetensors"), whole);
  const Outcome other = program(2, fmt::format("--resume {} --max-steps 8 --mixup-alpha 0.5", part.string()));
  EXPECT_EQ(other.code, static_cast<int>(Exit::usage)) << other.output;
  EXPECT_EQ(count(other.output, "--mixup-alpha was 0.4, is 0.5"), 1) << other.output;
}

TEST_F(MixOptions, RefuseWhatDoesNotFit) {
  expect_refused(Exit::usage, "--label-weights balanced --mixup-alpha 0.2", "a mixed sample has two labels");
  expect_refused(Exit::usage, "--label-weights balanced --label-smoothing 0.1", "--label-weights excludes");
  expect_refused(Exit::usage, "--mixup-alpha 1e-9", "--mixup-alpha must be 0 or at least 1e-06");
  expect_refused(Exit::usage, "--random-erase 1.5", "--random-erase");
  expect_refused(Exit::data, "--label-weights balanced --train-samples 5", "has no training sample");
  expect_refused(Exit::data, "--label-weights /nowhere.csv", "/nowhere.csv");
  folder_.write("short.csv", "class,weight\n0,1\n");
  expect_refused(Exit::data, fmt::format("--label-weights {}", (folder_ / "short.csv").string()),
                 "class 1 has no weight", 2);
}

}  // namespace
}  // namespace ddp::testing
