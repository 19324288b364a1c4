// Runs a few steps of each recipe.
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/program.h"

namespace ddp::testing {
namespace {

namespace fs = std::filesystem;

TEST(Recipes, EachRuns) {
  int runs = 0;
  const TempFolder images;
  few_images(images.path(), 40, 10);
  for (const auto& entry : fs::directory_iterator(DDP_LAUNCH "/recipes")) {
    const TempFolder folder;
    const Outcome outcome =
        program(2, fmt::format("--config {} --dataset fashion-mnist --data-path {} --batch-size 16 --max-steps 4 "
                               "--eval-every 0 --output-dir {}",
                               entry.path().string(), images.path().string(), (folder / "run").string()));
    EXPECT_EQ(outcome.code, 0) << entry.path() << outcome.output;
    EXPECT_EQ(count(outcome.output, "test acc: not evaluated"), 1) << outcome.output;
    EXPECT_EQ(count(outcome.output, "hint: "), count(outcome.output, "hint: 2 ranks share")) << outcome.output;
    EXPECT_TRUE(fs::exists(folder / "run/model.safetensors"));
    ++runs;
  }
  EXPECT_EQ(runs, 4);
}

}  // namespace
}  // namespace ddp::testing
