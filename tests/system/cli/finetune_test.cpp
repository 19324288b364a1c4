// A run that begins with the weights of another: of three colours for two of them.
#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "tests/system/cli/run_folder.h"
#include "tests/system/cli/three_colours.h"

#include <limits>

namespace ddp::testing {
namespace {

class FineTune : public ThreeColours {
 protected:
  FineTune() {
    for (const char* part : {"train", "val"})
      for (const char* name : {"blue, deep", "rot"}) {
        fs::create_directories(two_ / part);
        fs::copy(folder / "data" / part / name, two_ / part / name);
      }
  }
  Outcome train(int ranks, const fs::path& data, const fs::path& weights, const std::string& options,
                const std::string& batch = "16") const {
    return program(ranks, fmt::format("--data-path {} --model keras-convnet --init-from {} --batch-size {} "
                                      "--max-steps 2 --output-dir {} {}",
                                      data.string(), weights.string(), batch, (folder / "tuned").string(), options));
  }
  void expect_refused(const Outcome& outcome, Exit code, const std::string& message) const {
    EXPECT_EQ(outcome.code, static_cast<int>(code)) << outcome.output;
    EXPECT_EQ(count(outcome.output, "error:"), 1) << outcome.output;
    EXPECT_EQ(count(outcome.output, message), 1) << outcome.output;
    EXPECT_FALSE(fs::exists(folder / "tuned"));
  }
  // A copy of the run's weights, changed by `change(content)`.
  template <class Change>
  fs::path changed(const char* name, const Change& change) const {
    std::string content = read_file(run / "model.safetensors");
    change(content);
    std::ofstream(folder / name, std::ios::binary) << content;
    return folder / name;
  }

  const fs::path two_ = folder / "two";
};

TEST_F(FineTune, BeginsAHeadNewAndKeepsTheRest) {
  const Outcome begun = train(2, two_, run, "--new-head --lr 0 --threads 1 --print-freq 1", "max");
  ASSERT_EQ(begun.code, 0) << begun.output;
  EXPECT_EQ(
      count(begun.output,
            "14.weight [2, 256] and 14.bias [2] begin new; left out of the file: 14.bias [3], 14.weight [3, 256]\n"),
      1)
      << begun.output;
  EXPECT_EQ(count(begun.output, "--mean 0.5,0.5,0.5, --std 0.25,0.25,0.25, --val-crop-size 32, --val-resize-size 36\n"),
            1)
      << begun.output;
  EXPECT_EQ(count(begun.output, "rrc 32 x 32 scale 0.08,1 ratio 0.75,1.3333, validation resized to 36"), 1)
      << begun.output;
  EXPECT_EQ(count(begun.output, "\npixels: mean 0.5 0.5 0.5, std 0.25 0.25 0.25\n"), 1) << begun.output;

  const auto before = read_safetensors(run / "model.safetensors"),
             after = read_safetensors(folder / "tuned/model.safetensors");
  int kept = 0;
  for (const auto& [name, tensor] : after) {
    if (name.starts_with("14.")) {
      EXPECT_EQ(tensor.shape[0], 2) << name;
    } else if (name.ends_with("weight") || name.ends_with("bias")) {
      EXPECT_EQ(tensor.values, before.at(name).values) << name;
      ++kept;
    }
  }
  EXPECT_EQ(kept, 12);

  // The configuration and a resume keep the input, and show has it.
  const std::string config = read_file(folder / "tuned/config.toml");
  for (const char* line : {"mean = '0.5,0.5,0.5'\n", "val-resize-size = 36\n", "batch-size = 32\n"})
    EXPECT_EQ(count(config, line), 1) << config;
  const Outcome resumed =
      program(0, fmt::format("--resume {} --max-steps 3 --threads 1 --progress lines", (folder / "tuned").string()));
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_EQ(count(resumed.output, "\npixels: mean 0.5 0.5 0.5, std 0.25 0.25 0.25\n"), 1) << resumed.output;
  EXPECT_EQ(count(resumed.output, "begin new"), 0) << resumed.output;
  const Outcome shown = program(0, fmt::format("show {} --init-from {} --output {}", two_.string(), run.string(),
                                               (folder / "grid.png").string()));
  EXPECT_EQ(shown.code, 0) << shown.output;
  EXPECT_EQ(count(shown.output, "input: rrc 32 x 32"), 1) << shown.output;
  const Outcome grey = program(0, fmt::format("show {} --channels 1 --mean imagenet --output {}", two_.string(),
                                              (folder / "grey.png").string()));
  EXPECT_EQ(grey.code, 0) << grey.output;
  EXPECT_EQ(count(grey.output, "mean 0.449 is the average of three channels, for grey images\n"), 1) << grey.output;
  EXPECT_EQ(count(grey.output, "mean and standard deviation: 0.449 / 0.226\n"), 1) << grey.output;
}

TEST_F(FineTune, NamesWhatIsWrongWithTheWeights) {
  expect_refused(train(3, two_, run, ""), Exit::model,
                 "all but the last layer fits: add --new-head, which begins that layer new\n");
  const fs::path in_another_order = changed("order.safetensors", [](std::string& content) {
    const std::string first = R"(\"blue, deep\")", last = R"(\"rot\")";
    const size_t at = content.find(first), of_last = content.find(last);
    ASSERT_LT(at, of_last);
    content.replace(of_last, last.size(), first).replace(at, first.size(), last);
  });
  expect_refused(train(0, folder / "data", in_another_order, ""), Exit::model,
                 "classes of the data under other numbers: class 0 is rot there and blue, deep here; add --new-head");
  const fs::path with_nan = changed("nan.safetensors", [](std::string& content) {
    uint64_t length = 0;
    std::memcpy(&length, content.data(), sizeof length);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(content.data() + sizeof length + length, &nan, sizeof nan);
  });
  expect_refused(train(0, two_, run, "--new-head --freeze 14"), Exit::usage,
                 "--freeze keeps 14.weight, which --new-head begins at random; leave it out of --freeze");
  expect_refused(train(0, two_, with_nan, "--new-head"), Exit::numerics,
                 "the tensor 0.weight holds nan (number 1 of its ");
}

}  // namespace
}  // namespace ddp::testing
