// Accuracy of networks with batch norms on real data.
#include "tests/system/cli/program.h"

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <vector>

namespace ddp::testing {
namespace {

std::string recipe(const std::string& name) { return fmt::format("--config {}/{}.toml", DDP_RECIPES, name); }

// The test accuracy of each evaluation.
std::vector<double> accuracies(int ranks, const std::string& arguments) {
  const Folder folder;
  const auto run = folder / "run";
  const Outcome outcome = shell(fmt::format("timeout -k 5 500 {} -np {} {} {} --print-freq 0 --output-dir {}",
                                            DDP_MPIRUN, ranks, DDP_PROGRAM, arguments, run.string()));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  std::vector<double> found;
  std::istringstream lines(read_file(run / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event.at("event") == "eval") found.push_back(event.at("accuracy"));
  }
  std::printf("%d ranks %s: %.4f\n", ranks, arguments.c_str(), found.empty() ? 0 : found.back());
  return found;
}

// The two epochs of Keras's guide. With running averages the accuracy varies between 0.5 and 0.97.
TEST(KerasConvnet, ReachesTheAccuracyOfRecomputedStatisticsOnMnist) {
  const char* const mnist = std::getenv("DDP_MNIST");
  if (!mnist) GTEST_SKIP() << "DDP_MNIST names no folder with MNIST's four IDX files";
  for (const int seed : {0, 1, 2}) {
    const auto found = accuracies(3, fmt::format("{} --data-path {} --seed {}", recipe("keras-mnist"), mnist, seed));
    ASSERT_EQ(found.size(), 2u);
    EXPECT_GE(found.back(), 0.975) << "seed " << seed;
  }
}

TEST(KerasConvnet, LearnsFashionMnist) {
  const auto found = accuracies(3, recipe("keras-mnist") + " --dataset fashion-mnist");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_GE(found.back(), 0.80);
}

// PyTorch's run has the same weights and the same order of samples (tests/parity/accuracy_resnet18.py).
TEST(ResNet18, ReachesPytorchsAccuracyInSixtySteps) {
  const auto pytorch =
      nlohmann::json::parse(read_file(std::string(DDP_EXPECTED) + "/accuracy_resnet18.json")).at("test_accuracy");
  const auto found = accuracies(2, "--model resnet18 --batch-size 128 --lr 0.05 --max-steps 60 --seed 0 --sync-bn");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NEAR(found.back(), pytorch.get<double>(), 0.01);
}

}  // namespace
}  // namespace ddp::testing
