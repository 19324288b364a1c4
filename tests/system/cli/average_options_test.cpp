// The average of the weights: its file, its evaluation, and that it does not change the training.
#include "tests/system/cli/option_runs.h"

namespace ddp::testing {
namespace {

using nlohmann::json;

class AverageOptions : public OptionRuns {
 protected:
  static Weights weights_at(const Run& run, int64_t step, const char* file) {
    return read_weights(run.folder / "checkpoints" / fmt::format("step-{:08}", step) / file);
  }
};

// Updates follow the steps 1 and 3; the first one copies.
TEST_F(AverageOptions, SaveAndEvaluateTheAverage) {
  const std::string options = "--lr 0.1 --max-steps 4 --eval-every 1 --save-every 1steps --keep-last 0 ";
  const Run& done = run(options + "--model-ema --model-ema-decay 0.75 --model-ema-steps 2");
  EXPECT_TRUE(done.bytes() == run(options).bytes());
  EXPECT_FALSE(fs::exists(run(options).folder / "model_ema.safetensors"));
  const char *const weights = "model.safetensors", *const average = "model_ema.safetensors";
  const Weights first = weights_at(done, 1, weights), third = weights_at(done, 3, weights);
  ASSERT_GT(norm(third - first), 0.01 * norm(first));
  for (const int64_t step : {1, 2}) EXPECT_EQ(norm(weights_at(done, step, average) - first), 0) << step;
  const Weights expected =
      combined(first, third, [](const Doubles& a, const Doubles& b) { return Doubles(0.75 * a + 0.25 * b); });
  for (const int64_t step : {3, 4})
    EXPECT_LE(norm(weights_at(done, step, average) - expected), 1e-6 * norm(expected)) << step;
  EXPECT_TRUE(read_file(done.folder / average) == read_file(done.folder / "checkpoints" / "latest" / average));

  const json evaluation = events(done.folder, "eval").at(0),
             summary = json::parse(read_file(done.folder / "summary.json"));
  EXPECT_NE(evaluation.at("ema_loss"), evaluation.at("loss"));
  EXPECT_EQ(summary.at("ema_accuracy"), evaluation.at("ema_accuracy"));
  EXPECT_EQ(summary.at("best_accuracy"), evaluation.at("ema_accuracy"));
  EXPECT_EQ(count(done.output, fmt::format("test acc {:.4f}, EMA {:.4f} (", evaluation.at("accuracy").get<double>(),
                                           evaluation.at("ema_accuracy").get<double>())),
            1)
      << done.output;
  EXPECT_EQ(count(done.output, ", EMA "), 3) << done.output;

  for (const std::string choice : {"", "--ema"}) {
    const fs::path out = folder_ / ("out" + choice);
    const Outcome evaluated =
        program(0, fmt::format("evaluate {} {} --data-path {} --threads 1 --output-dir {}", done.folder.string(),
                               choice, (folder_ / "images").string(), out.string()));
    ASSERT_EQ(evaluated.code, 0) << evaluated.output;
    const json report = json::parse(read_file(out / "evaluation.json"));
    const std::string of = choice.empty() ? "" : "ema_";
    EXPECT_EQ(report.at("accuracy"), evaluation.at(of + "accuracy"));
    EXPECT_NEAR(report.at("loss").get<double>(), evaluation.at(of + "loss").get<double>(), 1e-6);
  }
  const fs::path exported = folder_ / "exported.safetensors";
  const Outcome of_export = program(
      0, fmt::format("export {} --ema --format safetensors --output {}", done.folder.string(), exported.string()));
  ASSERT_EQ(of_export.code, 0) << of_export.output;
  EXPECT_EQ(norm(read_weights(exported) - read_weights(done.folder / average)), 0);

  for (const int ranks : {0, 2}) {
    const Outcome none = program(ranks, fmt::format("predict {} --ema no.png", run(options).folder.string()));
    EXPECT_EQ(none.code, 3) << none.output;
    EXPECT_EQ(count(none.output, "has no model_ema.safetensors: its run had no --model-ema; leave out --ema"), 1)
        << none.output;
  }
}

}  // namespace
}  // namespace ddp::testing
