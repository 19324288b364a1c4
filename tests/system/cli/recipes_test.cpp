// Runs a few steps of each recipe.
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/png.h"
#include "tests/system/cli/program.h"

#include <map>
#include <vector>

namespace ddp::testing {
namespace {

namespace fs = std::filesystem;

// Two classes of four grey pictures, in train and val.
std::string few_pictures(const fs::path& folder) {
  for (const char* part : {"train", "val"})
    for (const char* name : {"a", "b"})
      for (int i = 0; i < 4; ++i) {
        fs::create_directories(folder / part / name);
        const std::vector<uint8_t> pixels(40 * (36 + i), static_cast<uint8_t>(40 * i + name[0]));
        write_png(folder / part / name / fmt::format("{}.png", i), 40, 36 + i, 1, pixels);
      }
  return "--data-path " + folder.string();
}

TEST(Recipes, EachRuns) {
  int runs = 0;
  const TempFolder folder;
  few_images(folder / "idx", 40, 10);
  const std::string idx = "--dataset fashion-mnist --data-path " + (folder / "idx").string(),
                    pictures = few_pictures(folder / "pictures");
  const std::map<std::string, std::string> data = {
      {"imagenet-resnet50", pictures + " --train-crop-size 32 --val-crop-size 32 --val-resize-size 36"},
      {"finetune", idx + " --model keras-convnet --init-from " + (folder / "keras-mnist").string()}};
  const auto run = [&](const fs::path& recipe) {
    const std::string name = recipe.stem();
    const Outcome outcome =
        program(2, fmt::format("--config {} {} --batch-size 16 --max-steps 4 --output-dir {}", recipe.string(),
                               data.contains(name) ? data.at(name) : idx, (folder / name).string()));
    EXPECT_EQ(outcome.code, 0) << recipe << outcome.output;
    EXPECT_EQ(count(outcome.output, "test acc: "), 1) << outcome.output;
    EXPECT_EQ(count(outcome.output, "not evaluated"), 0) << outcome.output;
    EXPECT_EQ(count(outcome.output, "hint: "), count(outcome.output, "hint: 2 ranks share")) << outcome.output;
    EXPECT_TRUE(fs::exists(folder / name / "model.safetensors"));
    ++runs;
  };
  const fs::path recipes = DDP_LAUNCH "/recipes", finetune = recipes / "finetune.toml";
  for (const auto& entry : fs::directory_iterator(recipes))
    if (entry.path() != finetune) run(entry.path());
  run(finetune);  // from the weights of another recipe
  EXPECT_EQ(runs, 7);
}

}  // namespace
}  // namespace ddp::testing
