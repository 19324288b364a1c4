// --rank-weights auto in the program: rank 1 sleeps 200 ms in each step, so rank 0 gets its samples after an epoch.
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/run_folder.h"

#include <string>
#include <vector>

namespace ddp::testing {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Three epochs of four steps; the last step of an epoch has two samples. The first two steps are not measured.
constexpr int kImages = 26, kBalancedBatch = 8, kBalancedSteps = 12;

class BalanceOptions : public ::testing::Test {
 protected:
  BalanceOptions() { few_images(folder_ / "images", kImages, 50); }

  Outcome run(int ranks, const char* name, const std::string& options) const {
    return program(ranks, fmt::format("--data-path {} --batch-size {} --lr 0.05 --epochs 3 --output-dir {} {}",
                                      (folder_ / "images").string(), kBalancedBatch, path(name).string(), options));
  }
  fs::path path(const char* name) const { return folder_ / name; }

 private:
  const TempFolder folder_;
};

TEST_F(BalanceOptions, GiveASlowRankFewerSamplesAndAResumedRunTheSame) {
  const std::string slow = "--rank-weights auto --inject kind=slow,rank=1 --save-every 6steps --bucket-cap-mb 8 ";
  const Outcome equal = run(2, "equal", "--save-every never"), balanced = run(2, "auto", slow);
  ASSERT_EQ(equal.code, 0) << equal.output;
  ASSERT_EQ(balanced.code, 0) << balanced.output;
  EXPECT_EQ(count(balanced.output, "epoch 2/3 begins with shards by measured speed: rank 0 1."), 1) << balanced.output;
  const std::vector<json> changes = events(path("auto"), "shards");
  ASSERT_EQ(changes.size(), 1u);
  const auto samples = changes[0].at("samples").get<std::vector<int>>();
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0] + samples[1], kBalancedBatch);
  EXPECT_LT(samples[1], kBalancedBatch / 2);
  EXPECT_EQ(json::parse(read_file(path("auto") / "profile.json")).at("shard"), samples[0]);
  EXPECT_EQ(changes[0].at("step"), 4);
  EXPECT_GT(changes[0].at("samples_per_second")[0], changes[0].at("samples_per_second")[1]);

  const auto losses = values_of<double>(path("auto"), "step", "loss"),
             of_equal = values_of<double>(path("equal"), "step", "loss");
  ASSERT_EQ(losses.size(), static_cast<size_t>(kBalancedSteps));
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], of_equal[i], 1e-4) << i;
  EXPECT_EQ(values_of<int64_t>(path("auto"), "eval", "correct"), values_of<int64_t>(path("equal"), "eval", "correct"));

  const std::string resume = fmt::format("--resume {}/checkpoints/step-00000006 ", path("auto").string());
  const Outcome resumed = run(2, "resumed", resume + "--inject kind=slow,rank=1,step=7");
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_EQ(count(resumed.output, "not bit-identical"), 0) << resumed.output;
  EXPECT_TRUE(read_file(path("resumed") / "model.safetensors") == read_file(path("auto") / "model.safetensors"));
  const Outcome wider = run(3, "wider", resume + "--plan");
  EXPECT_EQ(wider.code, 0) << wider.output;
  const Outcome one_epoch = run(2, "one-epoch", "--rank-weights auto --max-steps 4 --plan");
  EXPECT_EQ(count(one_epoch.output, "--rank-weights auto changes no shard in this run: shards change between epochs"),
            1)
      << one_epoch.output;
  EXPECT_EQ(count(wider.output,
                  "--rank-weights auto begins with equal shards: those of the checkpoint are for 2 ranks "
                  "and 8 samples"),
            1)
      << wider.output;
}

}  // namespace
}  // namespace ddp::testing
