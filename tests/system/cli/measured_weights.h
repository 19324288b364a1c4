// Compares what ddp_train evaluate says of the files of a run with what the run has printed.
#pragma once

#include "tests/system/cli/idx_data.h"
#include "tests/system/cli/run_folder.h"

#include <string>

namespace ddp::testing {

namespace fs = std::filesystem;

class MeasuredWeights : public ::testing::Test {
 protected:
  // Two epochs of three steps. At this rate the running averages are far behind the weights. Evaluates the best
  // checkpoint, the one of the other epoch, and the run's own weights.
  void expect_the_figures_of_the_run(const std::string& options, int ranks = 0) {
    const fs::path run = folder_ / "run", checkpoints = run / "checkpoints";
    const Outcome trained =
        program(ranks, fmt::format("{}{} --epochs 2 --batch-size 16 --lr 0.02 --keep-best --threads 1 --output-dir {}",
                                   options, data_, run.string()));
    ASSERT_EQ(trained.code, 0) << trained.output;
    const auto evaluations = events(run, "eval");
    ASSERT_EQ(evaluations.size(), 2u);
    const std::string best = fs::read_symlink(checkpoints / "best");
    for (const auto& evaluation : evaluations) {
      const std::string name = fmt::format("step-{:08}", evaluation.at("step").get<int>());
      expect_figures(checkpoints / (name == best ? "best" : name), evaluation);
    }
    expect_figures(run, evaluations.back());
  }

 private:
  void expect_figures(const fs::path& weights, const nlohmann::json& printed) {
    const fs::path out = folder_ / fmt::format("out{}", ++outputs_);
    const Outcome outcome = program(0, fmt::format("evaluate {}{} --batch-size 16 --threads 1 --output-dir {}",
                                                   weights.string(), data_, out.string()));
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    const auto found = nlohmann::json::parse(read_file(out / "evaluation.json"));
    EXPECT_EQ(found.at("correct"), printed.at("correct")) << weights;
    const double loss = printed.at("loss");
    EXPECT_NEAR(found.at("loss").get<double>(), loss, 1e-5 * loss) << weights;
  }

  const TempFolder folder_;
  const std::string data_ = idx_data(folder_, 16, 16, 48, 100);
  int outputs_ = 0;
};

}  // namespace ddp::testing
