// A network from a file: the example of launch/README.md is trained, killed, resumed without its file, and used from
// its run alone.
#include "core/error.h"
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/png.h"
#include "tests/system/cli/program.h"

#include <nlohmann/json.hpp>

#include <string>

namespace ddp::testing {
namespace {

namespace fs = std::filesystem;

// The first block of TOML in the section "Write a network".
std::string example_of_readme() {
  const std::string readme = read_file(DDP_LAUNCH "/README.md"), fence = "```";
  const size_t section = readme.find("\n### Write a network\n"), block = readme.find(fence + "toml\n", section);
  EXPECT_NE(section, readme.npos);
  EXPECT_NE(block, readme.npos);
  const size_t begin = block + fence.size() + 5;
  return readme.substr(begin, readme.find(fence, begin) - begin);
}

class ModelFile : public ::testing::Test {
 protected:
  ModelFile() { few_images(folder / "images", 160, 20); }

  std::string path(const char* name) const { return (folder / name).string(); }
  std::string training(const char* run, const std::string& more) const {
    return fmt::format("--data-path {} --batch-size 16 --epochs 2 --momentum 0.9 --threads 1 --output-dir {} {}",
                       path("images"), path(run), more);
  }
  void expect_refused(Exit code, const std::string& message, int ranks, const std::string& arguments) const {
    const Outcome outcome = program(ranks, arguments);
    EXPECT_EQ(outcome.code, static_cast<int>(code)) << outcome.output;
    EXPECT_EQ(count(outcome.output, message), 1) << outcome.output;
    EXPECT_EQ(count(outcome.output, "error: "), 1) << outcome.output;
  }

  const TempFolder folder;
};

TEST_F(ModelFile, NeedsItsRunOnlyAfterTheStart) {
  const std::string text = example_of_readme(), model = "--model " + path("tiny.toml");
  folder.write("tiny.toml", text);
  const Outcome whole = program(2, training("whole", model + " --engine-seconds 0 --save-every never"));
  ASSERT_EQ(whole.code, 0) << whole.output;
  EXPECT_EQ(count(whole.output, "tiny from a file of hash "), 1) << whole.output;
  const Outcome killed =
      program(2, training("run", model + " --engine-seconds 0 --save-every 4steps --inject kind=kill,rank=1,step=17"));
  EXPECT_TRUE(was_killed(killed.code)) << killed.output;
  EXPECT_EQ(read_file(folder / "run" / "model.toml"), text);

  // Another text is refused with both hashes, before it is used.
  folder.write("tiny.toml", text + "\n");
  expect_refused(Exit::usage, "--model was a file of hash ", 1, fmt::format("{} --resume {}", model, path("run")));

  // The configuration of the run still names the file, which is gone.
  fs::remove(folder / "tiny.toml");
  const Outcome planned = program(0, fmt::format("--resume {} --plan", path("run")));
  EXPECT_EQ(planned.code, 0) << planned.output;
  EXPECT_EQ(count(planned.output, "tiny from a file of hash "), 1) << planned.output;
  const Outcome resumed = program(2, fmt::format("--config {0}/config.toml --resume {0}", path("run")));
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_EQ(count(resumed.output, "at step 16"), 1) << resumed.output;
  EXPECT_TRUE(read_file(folder / "run" / "model.safetensors") == read_file(folder / "whole" / "model.safetensors"));

  const std::string last = fmt::format("{}/checkpoints/latest", path("run"));
  const Outcome evaluated = program(2, fmt::format("evaluate {} --data-path {}", last, path("images")));
  EXPECT_EQ(evaluated.code, 0) << evaluated.output;
  const std::string images = read_file(folder / "images" / "t10k-images-idx3-ubyte");
  write_png(folder / "picture.png", 28, 28, 1, {reinterpret_cast<const uint8_t*>(images.data()) + 16, 784});
  const Outcome predicted = program(0, fmt::format("predict {} {} --json", path("run"), path("picture.png")));
  EXPECT_EQ(predicted.code, 0) << predicted.output;
  EXPECT_EQ(count(predicted.output, "\"probability\""), 5) << predicted.output;
  const Outcome exported = program(0, fmt::format("export {} --output {}", path("run"), path("tiny.onnx")));
  EXPECT_EQ(exported.code, 0) << exported.output;
  EXPECT_EQ(count(exported.output, "tiny.onnx: tiny, input f32 (batch, 1, 28, 28), logits f32 (batch, 10)"), 1)
      << exported.output;

  const Outcome shown = program(0, fmt::format("show-model {} --svg {}", path("run"), path("tiny.svg")));
  EXPECT_EQ(shown.code, 0) << shown.output;
  EXPECT_EQ(count(shown.output, "tiny from a file of hash "), 1) << shown.output;
  EXPECT_EQ(count(shown.output, "\nlayer2.conv1 "), 1) << shown.output;
  EXPECT_EQ(read_file(folder / "tiny.svg").find("<svg "), 0u);
  expect_refused(Exit::output, "tiny.svg", 0, fmt::format("show-model lenet --svg {}", path("tiny.svg")));
}

TEST_F(ModelFile, IsRefusedWithOneMessageOnAllRanks) {
  expect_refused(Exit::data, "missing.toml: cannot read it: No such file", 2,
                 training("a", "--model " + path("missing.toml")));
  folder.write("wrong.toml", "layers = [\n  { conv2d = 8, kernel = 40 },\n  { linear = \"classes\" },\n]\n");
  expect_refused(Exit::model, "wrong.toml, line 2: ", 2, training("a", "--model " + path("wrong.toml")));
  EXPECT_FALSE(fs::exists(folder / "a"));
  expect_refused(Exit::model, "wrong.toml, line 2: ", 0,
                 fmt::format("show-model {} --image 28x28x1", path("wrong.toml")));
  const Outcome checked = program(0, training("a", "--doctor --model " + path("missing.toml")));
  EXPECT_EQ(checked.code, static_cast<int>(Exit::data)) << checked.output;
  EXPECT_EQ(count(checked.output, "missing.toml: cannot read it"), 1) << checked.output;

  // Weights without metadata take the file too.
  folder.write("lenet.toml", R"(layers = [
    { conv2d = 20, kernel = 3 }, { activation = "relu" }, { avg_pool2d = 2 },
    { conv2d = 50, kernel = 5 }, { activation = "relu" }, { avg_pool2d = 2 },
    { flatten = true }, { linear = 128 }, { activation = "relu" }, { linear = "classes" } ])");
  const Outcome exported = program(
      0, fmt::format("export {} --model {} --classes 10 --val-crop-size 28 --channels 1 --mean none --output {}",
                     DDP_EXPECTED "/weights_050.safetensors", path("lenet.toml"), path("lenet.onnx")));
  EXPECT_EQ(exported.code, 0) << exported.output;
  EXPECT_EQ(count(read_file(folder / "lenet.onnx"), "avg_pool2d"), 2);  // the graph is in the metadata
}

}  // namespace
}  // namespace ddp::testing
