// ddp_train export: the files of a trained network for other programs. tests/system/readers runs them in onnxruntime.
#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "tests/system/cli/program.h"

#include <cstring>
#include <limits>

namespace ddp::testing {
namespace {

namespace fs = std::filesystem;

// LeNet's weights, without metadata.
class Export : public ::testing::Test {
 protected:
  Outcome run(const std::string& arguments, int ranks = 0) const {
    return program(ranks, fmt::format("export {} --classes 10 --val-crop-size 28 --channels 1 --mean none {}", weights,
                                      arguments));
  }
  void expect_refused(Exit code, const std::string& message, const std::string& arguments, int ranks = 0) const {
    const Outcome outcome = run(arguments, ranks);
    EXPECT_EQ(outcome.code, static_cast<int>(code)) << arguments;
    EXPECT_EQ(count(outcome.output, message), 1) << outcome.output;
    EXPECT_EQ(count(outcome.output, "error: "), 1) << outcome.output;
  }
  std::string path(const char* name) const { return (folder / name).string(); }

  const TempFolder folder;
  std::string weights = DDP_EXPECTED "/weights_050.safetensors";
};

TEST_F(Export, WritesAllTensorsAndTheirDescription) {
  const std::string copy = path("copy.safetensors");
  const Outcome outcome = run(fmt::format("--model lenet --format safetensors --output {}", copy));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.output, copy + ": lenet\n");
  const auto expected = read_safetensors(weights), actual = read_safetensors(copy);
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    EXPECT_EQ(actual.at(name).shape, tensor.shape) << name;
    EXPECT_TRUE(actual.at(name).values == tensor.values) << name;
  }
  // The metadata describe the network, so no options are needed now. Without --output the file is in this folder.
  const Outcome described = shell(fmt::format("cd {} && {} export {} --fold-batch-norm --with-preprocessing",
                                              folder.path().string(), DDP_PROGRAM, copy));
  EXPECT_EQ(described.code, 0);
  EXPECT_EQ(described.output,
            "lenet.onnx: lenet, input u8 (batch, 28, 28, 1), logits f32 (batch, 10), 0 of 0 batch norms folded\n");
  EXPECT_EQ(count(read_file(folder / "lenet.onnx"), "7.weight"), 2);  // the tensor and its use
}

TEST_F(Export, RefusesBadInputAndBadFiles) {
  const auto to = [&](const char* name) { return fmt::format("--model lenet --output {}", path(name)); };
  fs::create_directories(folder / "folder.onnx");
  fs::create_symlink(folder / "nowhere", folder / "link.onnx");
  std::ofstream(folder / "old.onnx") << "old";
  for (const char* name : {"folder.onnx", "link.onnx", "old.onnx"})
    expect_refused(Exit::output, fmt::format("cannot create {}: File exists; remove it", path(name)), to(name));
  EXPECT_FALSE(fs::exists(folder / "nowhere"));
  EXPECT_EQ(read_file(folder / "old.onnx"), "old");
  expect_refused(Exit::output, "No such file or directory", to("none/new.onnx"));
  expect_refused(Exit::output, "cannot create /proc/new.onnx", "--model lenet --output /proc/new.onnx");

  expect_refused(Exit::usage, "--format: pth not in", to("new.onnx") + " --format pth");
  expect_refused(Exit::usage, "the name must end in .safetensors", to("new.onnx") + " --format safetensors");
  expect_refused(Exit::usage, "--with-preprocessing needs --format onnx",
                 to("new.safetensors") + " --format safetensors --with-preprocessing");
  expect_refused(Exit::usage, "export runs on one rank, not on 2: start it without mpirun", to("new.onnx"), 2);
  // A network of other sizes is refused before anything of its size is read.
  const std::string large = fmt::format("--model mlp --classes 10 --val-crop-size 16384 --channels 1 --mean none");
  const Outcome huge = program(0, fmt::format("export {} {} --output {}", weights, large, path("new.onnx")));
  EXPECT_EQ(huge.code, static_cast<int>(Exit::usage));
  EXPECT_EQ(count(huge.output, "the ONNX file would have 256.0 GiB, and such a file has less than 2"), 1)
      << huge.output;

  std::string content = read_file(weights);
  uint64_t header = 0;
  std::memcpy(&header, content.data(), sizeof header);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(content.data() + sizeof header + header, &nan, sizeof nan);
  weights = path("nan.safetensors");
  std::ofstream(weights, std::ios::binary) << content;
  expect_refused(Exit::numerics, "has NaN or infinity; export weights from before the training diverged",
                 to("new.onnx"));
  weights = path("folder.onnx");
  expect_refused(Exit::data, weights, to("new.onnx"));
  EXPECT_FALSE(fs::exists(folder / "new.onnx"));
}

}  // namespace
}  // namespace ddp::testing
