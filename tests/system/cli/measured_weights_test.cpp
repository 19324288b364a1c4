// ddp_train evaluate gives the figures that a run printed: of its best checkpoint, of the other checkpoints that were
// saved with an evaluation, and of the run's own weights.
#include "tests/system/cli/idx_data.h"
#include "tests/system/cli/run_folder.h"

#include <string>

namespace ddp::testing {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

struct MeasuredCase {
  const char* name;
  const char* options;
  int ranks = 0;
};

void PrintTo(const MeasuredCase& c, std::ostream* out) { *out << c.name; }

class MeasuredWeights : public ::testing::TestWithParam<MeasuredCase> {
 protected:
  void expect_figures(const fs::path& weights, const json& printed) {
    const fs::path out = folder / fmt::format("out{}", ++outputs_);
    const Outcome outcome = program(0, fmt::format("evaluate {}{} --batch-size 16 --threads 1 --output-dir {}",
                                                   weights.string(), data, out.string()));
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    const json found = json::parse(read_file(out / "evaluation.json"));
    EXPECT_EQ(found.at("correct"), printed.at("correct")) << weights;
    const double loss = printed.at("loss");
    EXPECT_NEAR(found.at("loss").get<double>(), loss, 1e-5 * loss) << weights;
  }

  const TempFolder folder;
  const std::string data = idx_data(folder, 16, 16, 48, 100);

 private:
  int outputs_ = 0;
};

// Two epochs of three steps. At this rate the running averages are far behind the weights.
TEST_P(MeasuredWeights, GiveTheFiguresOfTheRun) {
  const fs::path run = folder / "run", checkpoints = run / "checkpoints";
  const Outcome trained = program(
      GetParam().ranks, fmt::format("{}{} --epochs 2 --batch-size 16 --lr 0.02 --keep-best --threads 1 --output-dir {}",
                                    GetParam().options, data, run.string()));
  ASSERT_EQ(trained.code, 0) << trained.output;
  const auto evaluations = events(run, "eval");
  ASSERT_EQ(evaluations.size(), 2u);
  const std::string best = fs::read_symlink(checkpoints / "best");
  for (const json& evaluation : evaluations) {
    const std::string name = fmt::format("step-{:08}", evaluation.at("step").get<int>());
    expect_figures(checkpoints / (name == best ? "best" : name), evaluation);
  }
  expect_figures(run, evaluations.back());
}

INSTANTIATE_TEST_SUITE_P(
    , MeasuredWeights,
    ::testing::Values(MeasuredCase{"Mlp", "--model mlp"}, MeasuredCase{"Lenet", "--model lenet"},
                      MeasuredCase{"KerasConvnet", "--model keras-convnet", 2},
                      MeasuredCase{"KerasConvnetRunning", "--model keras-convnet --bn-stats running"},
                      MeasuredCase{"Resnet18", "--model resnet18"},
                      MeasuredCase{"TorchvisionResnet18", "--model torchvision-resnet18 --sync-bn", 3},
                      MeasuredCase{"TorchvisionResnet50", "--model torchvision-resnet50"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace ddp::testing
