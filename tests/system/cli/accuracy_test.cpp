// A full job on the real data: ten epochs reach PyTorch's accuracy.
#include "tests/system/cli/program.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace ddp::testing {
namespace {

using nlohmann::json;

double best_of_last_three(int ranks, const std::string& arguments) {
  const Folder folder;
  const auto run = folder / "run";
  const Outcome outcome = shell(fmt::format("timeout -k 5 800 {} -np {} {} --seed 0 --output-dir {} {}", DDP_MPIRUN,
                                            ranks, DDP_PROGRAM, run.string(), arguments));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  double best = 0;
  std::istringstream lines(read_file(run / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const json event = json::parse(line);
    if (event.at("event") == "eval" && event.at("epoch") >= 8) best = std::max<double>(best, event.at("accuracy"));
  }
  std::printf("%d ranks %s: best of epochs 8 to 10: %.4f\n", ranks, arguments.c_str(), best);
  return best;
}

TEST(Accuracy, FromTheBooksInitialWeights) { EXPECT_GE(best_of_last_three(1, "--init normal:0.01"), 0.81); }

// PyTorch started from the weights that `--max-steps 1 --lr 0` saves (default_seed0.safetensors), in three orders.
TEST(Accuracy, FromTheDefaultInitialWeights) {
  double sum = 0;
  int runs = 0;
  for (const json& run : json::parse(read_file(std::string(DDP_EXPECTED) + "/accuracy.json"))) {
    if (run.at("init") != "default_seed0.safetensors") continue;
    sum += run.at("best_of_last_three").get<double>();
    ++runs;
  }
  ASSERT_EQ(runs, 3);
  EXPECT_NEAR(best_of_last_three(4, ""), sum / runs, 0.01);
}

}  // namespace
}  // namespace ddp::testing
