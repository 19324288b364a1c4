// What a run on tokens shows of itself, and which options it refuses.
#include "core/error.h"
#include "tests/system/cli/run_folder.h"

#include <cmath>
#include <regex>

namespace ddp::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kTokensOfWindow = 16;

// gpt-tiny with 24 channels; each token follows from the one before it, in most places.
class TokenRuns : public ::testing::Test {
 protected:
  TokenRuns() {
    write_tokens("data/train.bin", 40);
    write_tokens("data/val.bin", 10);
    const std::string network = read_file(DDP_LAUNCH "/../src/nn/models/gpt-tiny.toml");
    folder_.write("small.toml", std::regex_replace(network, std::regex("384"), "24"));
    folder_.write("common.toml",
                  fmt::format("model = \"{}\"\ndataset = \"tokens\"\ndata-path = \"{}\"\nsequence-length = {}\n"
                              "vocab-size = 32\nbatch-size = 8\nlr = 0.5\nthreads = 1\nepochs = 3\n"
                              "save-every = \"never\"\n",
                              (folder_ / "small.toml").string(), (folder_ / "data").string(), kTokensOfWindow));
  }

  void write_tokens(const std::string& name, int windows) const {
    std::string bytes;
    for (int i = 0, token = 0; i <= windows * kTokensOfWindow; ++i, token = (5 * token + 3 + i % 7 / 6) % 32)
      bytes += {static_cast<char>(token), '\0'};
    folder_.write(name, bytes);
  }
  std::string common() const { return fmt::format("--config {} ", (folder_ / "common.toml").string()); }

  TempFolder folder_;
};

TEST_F(TokenRuns, ShowLossPerplexityAndTokens) {
  const fs::path run = folder_ / "run", alone = folder_ / "alone";
  const Outcome outcome = program(
      2, common() + fmt::format("--print-freq 5 --keep-best --model-ema --model-ema-steps 1 --model-ema-decay 0.5 "
                                "--label-smoothing 0.1 --output-dir {}",
                                run.string()));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  for (const char* line :
       {R"(epoch 1/3 step 5/5 loss [\d.]+ [\d.]+ samples/s \d+ tokens/s, ms: )",
        R"(epoch 3/3 test loss [\d.]+, EMA [\d.]+, perplexity [\d.]+ \(10/10 samples evaluated in )",
        R"(\ntest loss [\d.]+, EMA [\d.]+, perplexity [\d.]+, [\d.]+ sec/epoch, \d+ tokens/sec on 2 x )"})
    EXPECT_TRUE(std::regex_search(outcome.output, std::regex(line))) << line << "\n" << outcome.output;
  for (const char* word : {"test acc", "image", "picture", "class"})
    EXPECT_EQ(outcome.output.find(word), std::string::npos) << word << "\n" << outcome.output;

  const json summary = json::parse(read_file(run / "summary.json"));
  const auto losses = values_of<double>(run, "eval", "loss"), averages = values_of<double>(run, "eval", "ema_loss");
  EXPECT_EQ(summary.at("test_loss"), losses.back());
  EXPECT_EQ(summary.at("perplexity"), std::exp(losses.back()));
  EXPECT_EQ(summary.at("best_loss"), std::ranges::min(averages));
  EXPECT_EQ(summary.at("ema_loss"), averages.back());
  EXPECT_TRUE(summary.at("best_accuracy").is_null());
  EXPECT_GT(summary.at("tokens_per_second"), 0);
  EXPECT_FALSE(summary.contains("per_class") || fs::exists(run / "confusion.csv"));
  EXPECT_LT(losses.back(), losses.front());
  EXPECT_EQ(values_of<int64_t>(run, "step", "tokens"), std::vector<int64_t>(15, 8 * kTokensOfWindow));
  EXPECT_EQ(values_of<int64_t>(run, "eval", "tokens"), std::vector<int64_t>(3, 10 * kTokensOfWindow));
  EXPECT_FALSE(json::parse(read_file(run / "checkpoints/best/state.json")).contains("pictures"));

  const Outcome watched = program(0, "watch " + run.string());
  EXPECT_NE(watched.output.find("step 15 of 15, test loss "), std::string::npos) << watched.output;
  ASSERT_EQ(program(0, "report " + run.string()).code, 0);
  const std::string page = read_file(run / "report.html");
  EXPECT_NE(page.find("Test perplexity"), std::string::npos);
  EXPECT_EQ(page.find("<h2>Classes</h2>"), std::string::npos);

  // The number of ranks changes nothing.
  ASSERT_EQ(program(0, common() + fmt::format("--label-smoothing 0.1 --output-dir {}", alone.string())).code, 0);
  const auto of_one = values_of<double>(alone, "eval", "loss");
  ASSERT_EQ(of_one.size(), losses.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], of_one[i], 1e-4 * of_one[i]);
}

TEST_F(TokenRuns, RefuseOptionsOfImagesAndPlanOnWindows) {
  for (const char* option : {"--mixup-alpha 0.2", "--cutmix-alpha 1", "--label-weights balanced"}) {
    const Outcome refused = program(0, common() + option);
    EXPECT_EQ(refused.code, static_cast<int>(Exit::usage)) << refused.output;
    EXPECT_EQ(count(refused.output, "; the data set is tokens"), 1) << refused.output;
  }
  const Outcome plan = program(0, common() + "--plan --batch-size max");
  EXPECT_EQ(plan.code, 0) << plan.output;
  EXPECT_EQ(count(plan.output, "--batch-size max is 40: "), 1) << plan.output;
  EXPECT_EQ(count(plan.output, "predicted step: "), 1) << plan.output;
  const Outcome found = program(
      0, fmt::format("lr-find {}--steps 40 --accumulate 2 --output {}", common(), (folder_ / "lr.html").string()));
  EXPECT_EQ(found.code, 0) << found.output;
  EXPECT_TRUE(fs::exists(folder_ / "lr.html"));
}

}  // namespace
}  // namespace ddp::testing
