// Jobs on the real data reach PyTorch's accuracy.
#include "tests/system/cli/run_folder.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace ddp::testing {
namespace {

using nlohmann::json;

struct Evaluation {
  double accuracy, loss;
};

std::vector<Evaluation> evaluations(int ranks, const std::string& arguments) {
  const TempFolder folder;
  const auto run = folder / "run";
  const Outcome outcome = shell(fmt::format("timeout -k 5 1600 {} -np {} {} --print-freq 0 --output-dir {} {}",
                                            DDP_MPIRUN, ranks, DDP_PROGRAM, run.string(), arguments));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count(outcome.output, "hint: the loss"), 0) << outcome.output;
  std::vector<Evaluation> found;
  for (const json& event : events(run, "eval")) found.push_back({event.at("accuracy"), event.at("loss")});
  for (const Evaluation& e : found)
    std::printf("%d ranks %s: accuracy %.4f, loss %.4f\n", ranks, arguments.c_str(), e.accuracy, e.loss);
  return found;
}

// The network learns little in the first epoch. PyTorch's accuracy after three is 0.711 to 0.723
// (expected/accuracy.json). Seeds 1 to 5 reach 0.70 to 0.76 here. Seed 0 reaches 0.679 with AVX2 and 0.698 with
// AVX, because they round in other ways; with half the learning rate it reaches 0.586.
TEST(Accuracy, FromTheBooksInitialWeights) {
  const auto found = evaluations(2, "--init normal:0.01 --epochs 3 --seed 0");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_LE(found.front().accuracy, 0.3);  // 0.73 with the default weights
  EXPECT_GE(found.back().accuracy, 0.66);
}

// PyTorch started from the weights that `--max-steps 1 --lr 0` saves (default_seed0.safetensors), in three orders,
// whose best accuracies of the epochs 4 to 6 are 0.818 to 0.842.
TEST(Accuracy, FromTheDefaultInitialWeights) {
  const auto best_of_last_three = [](const std::vector<double>& accuracies) {
    return *std::max_element(accuracies.begin() + 3, accuracies.begin() + 6);
  };
  double sum = 0;
  int runs = 0;
  for (const json& run : json::parse(read_file(std::string(DDP_EXPECTED) + "/accuracy.json"))) {
    if (run.at("init") != "default_seed0.safetensors") continue;
    sum += best_of_last_three(run.at("accuracy"));
    ++runs;
  }
  ASSERT_EQ(runs, 3);
  std::vector<double> found;
  for (const Evaluation& evaluation : evaluations(2, "--epochs 6 --seed 0")) found.push_back(evaluation.accuracy);
  ASSERT_EQ(found.size(), 6u);
  EXPECT_NEAR(best_of_last_three(found), sum / runs, 0.015);
}

std::string recipe(const std::string& name) { return fmt::format("--config {}/recipes/{}.toml", DDP_LAUNCH, name); }

// The two epochs of Keras's guide. With running averages the accuracy varies between 0.5 and 0.97.
TEST(KerasConvnet, ReachesTheAccuracyOfRecomputedStatisticsOnMnist) {
  const char* const mnist = std::getenv("DDP_MNIST");
  if (!mnist) GTEST_SKIP() << "DDP_MNIST names no folder with MNIST's four IDX files";
  for (const int seed : {0, 1, 2}) {
    const auto found = evaluations(3, fmt::format("{} --data-path {} --seed {}", recipe("keras-mnist"), mnist, seed));
    ASSERT_EQ(found.size(), 2u);
    EXPECT_GE(found.back().accuracy, 0.975) << "seed " << seed;
  }
}

// Two seeds reach 0.825 and 0.835; with running averages the accuracy is 0.62.
TEST(KerasConvnet, LearnsFashionMnist) {
  const auto found = evaluations(3, recipe("keras-mnist") + " --dataset fashion-mnist --epochs 1");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_GE(found.back().accuracy, 0.82);  // 0.835 here
}

// PyTorch's run has the same weights, the same order of samples, and the same test images
// (tests/parity/accuracy_resnet18.py). Rounding alone moves accuracy and loss: 0.593 to 0.601 and 1.064 to 1.072 on one
// to three ranks. A learning rate of 0.018 in place of 0.02 gives a loss of 1.101.
TEST(ResNet18, ReachesPytorchsAccuracyInFifteenSteps) {
  const json pytorch = json::parse(read_file(std::string(DDP_EXPECTED) + "/accuracy_resnet18.json"));
  const TempFolder data;
  const Outcome cut = shell(fmt::format(R"(
    set -e; cd {}; from=/usr/share/datasets/fashion-mnist
    ln -s $from/train-* .
    first_2000() {{  # FILE BYTES: the items of the test file, BYTES in all with the rest of its header
      gzip -dc $from/$1.gz | {{ head -c 4; head -c 4 >/dev/null; printf '\0\0\007\320'; head -c $2; }} >$1
    }}
    first_2000 t10k-images-idx3-ubyte $((8 + 2000 * 784))
    first_2000 t10k-labels-idx1-ubyte 2000)",
                                        (data / "").string()));
  ASSERT_EQ(cut.code, 0) << cut.output;
  const auto found = evaluations(2, fmt::format("--model resnet18 --data-path {} --train-samples 1920 --batch-size 128 "
                                                "--lr 0.02 --max-steps 15 --seed 0 --sync-bn",
                                                (data / "").string()));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NEAR(found.back().accuracy, pytorch.at("test_accuracy").get<double>(), 0.02);
  EXPECT_NEAR(found.back().loss, pytorch.at("test_loss").get<double>(), 0.02);
}

}  // namespace
}  // namespace ddp::testing
