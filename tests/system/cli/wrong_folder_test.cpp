// The folder above the data set is refused, with the line that names the right one. The pictures are those of a camera
// of 12 bits in files of 16; a Mac wrote a name of a class in the training part.
#include "core/error.h"
#include "tests/system/cli/png.h"
#include "tests/system/cli/program.h"

#include <string>
#include <vector>

namespace ddp::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kPixels = 8;

class WrongFolder : public ::testing::Test {
 protected:
  WrongFolder() {
    for (const char* name : {"data/cifar/train/cafe\u0301", "data/cifar/train/dog", "data/cifar/val/caf\u00e9",
                             "data/cifar/val/dog", "one/caf\u00e9"}) {
      fs::create_directories(folder_ / name);
      for (int i = 0; i < 4; ++i) {
        std::vector<uint8_t> pixels(2 * kPixels * kPixels);
        for (size_t k = 0; k < pixels.size(); k += 2) {
          const int value = k == 0 ? 4095 : static_cast<int>(k * (i + 1) * 31 % 4096);
          pixels[k] = static_cast<uint8_t>(value >> 8), pixels[k + 1] = static_cast<uint8_t>(value);
        }
        write_png(folder_ / name / fmt::format("{}.png", i), kPixels, kPixels, 1, pixels, 16);
      }
    }
    folder_.write("data/cifar/__MACOSX/train/dog/._1.png");
    folder_.write("one.csv", "path,label,split\ntrain/dog/0.png,animal,Train\ntrain/dog/1.png,animal,TEST\n");
  }

  // Expects that the command is refused once, and returns what it was probably meant to have.
  std::string meant(int ranks, const std::string& arguments) const {
    const Outcome outcome = program(ranks, arguments);
    EXPECT_EQ(outcome.code, static_cast<int>(Exit::data)) << outcome.output;
    EXPECT_EQ(count(outcome.output, "error:"), 1) << outcome.output;
    const std::string before = "; probably meant:\n  ";
    const size_t begin = outcome.output.find(before);
    if (begin == std::string::npos) return "nothing: " + outcome.output;
    return outcome.output.substr(begin + before.size(),
                                 outcome.output.find('\n', begin + before.size()) - begin - before.size());
  }

  const TempFolder folder_;
  const std::string above_ = (folder_ / "data").string(), run_ = (folder_ / "run").string();
};

TEST_F(WrongFolder, IsRefusedWithTheRightOne) {
  const std::string right = fmt::format("--data-path '{}/cifar'", above_);
  EXPECT_EQ(meant(0, "--val-split 0.5 --data-path " + above_), right);
  EXPECT_EQ(meant(2, "--data-path " + above_), right);
  EXPECT_EQ(meant(0, fmt::format("show {} --output {}/grid.png", above_, folder_.path().string())), right);
  const Outcome csv =
      program(2, fmt::format("--data-path {}/cifar --labels {}/one.csv", above_, folder_.path().string()));
  EXPECT_EQ(csv.code, static_cast<int>(Exit::data)) << csv.output;
  EXPECT_EQ(count(csv.output, "one.csv: all training rows have the label animal, and a network learns"), 1)
      << csv.output;

  const Outcome trained = program(
      2, fmt::format("{} --model mlp --batch-size 4 --max-steps 2 --print-freq 0 --output-dir {}", right, run_));
  ASSERT_EQ(trained.code, 0) << trained.output;
  EXPECT_EQ(count(trained.output, "folder: 8 training and 8 test samples of 2 classes, 8 x 8 x 1\n"), 1)
      << trained.output;
  EXPECT_EQ(count(trained.output, "hidden files only: __MACOSX\n"), 1) << trained.output;
  EXPECT_EQ(
      count(trained.output, "hint: the files have 16 bits a channel, but the largest measured value is 16 of 255"), 1)
      << trained.output;

  // A trained network tells classes apart, so one class is enough to evaluate it, and a prediction needs none.
  EXPECT_EQ(meant(2, fmt::format("evaluate {} --data-path {}", run_, above_)), right);
  const Outcome evaluated = program(0, fmt::format("evaluate {} --data-path {}/one", run_, folder_.path().string()));
  EXPECT_EQ(evaluated.code, 0) << evaluated.output;
  EXPECT_EQ(count(evaluated.output, "/4), loss"), 1) << evaluated.output;
  fs::rename(folder_ / "data/cifar/__MACOSX", folder_ / "one/__MACOSX");
  fs::copy(folder_ / "one/caf\u00e9", folder_ / "one/__MACOSX/train/dog");
  const Outcome predicted = program(0, fmt::format("predict {} {}/one", run_, folder_.path().string()));
  EXPECT_EQ(predicted.code, 0) << predicted.output;
  EXPECT_EQ(count(predicted.output, "\n"), 4) << predicted.output;
}

}  // namespace
}  // namespace ddp::testing
