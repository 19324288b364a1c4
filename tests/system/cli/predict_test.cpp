// ddp_train predict: from a training to what the network sees in pictures.
#include "core/error.h"
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/png.h"
#include "tests/system/cli/program.h"

#include <nlohmann/json.hpp>

#include <cstring>
#include <random>

namespace ddp::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kBroken = static_cast<int>(Exit::data);

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  return lines;
}

std::string first_class(const json& line) { return line.at("predictions").at(0).at("class"); }

double accuracy_of(const fs::path& run) {
  return json::parse(read_file(run / "summary.json")).at("test_accuracy").get<double>();
}

// Writes the weights of `from` without metadata.
void strip_metadata(const fs::path& from, const fs::path& to) {
  const std::string file = read_file(from);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  json header = json::parse(file.substr(8, length));
  header.erase("__metadata__");
  const std::string text = header.dump();
  const uint64_t shorter = text.size();
  std::ofstream(to, std::ios::binary) << std::string(reinterpret_cast<const char*>(&shorter), 8) << text
                                      << file.substr(8 + length);
}

// Three colours, which are easy to tell apart, in pictures of different sizes. Two validation pictures are in the
// folder of another class.
class Predict : public ::testing::Test {
 protected:
  Predict() {
    const std::vector<std::string> classes = {"blue, deep", "green\nlight", "rot"};
    for (const char* part : {"train", "val"})
      for (int label = 0; label < 3; ++label) {
        fs::create_directories(folder / "data" / part / classes[label]);
        for (int i = 0; i < (part[0] == 't' ? 16 : 8); ++i)
          write(folder / "data" / part / classes[label] / fmt::format("{}.png", i),
                part[0] == 'v' && i == 0 && label > 0 ? 0 : label);
      }
    const Outcome outcome = program(
        0, fmt::format("--data-path {} --model keras-convnet --train-crop-size 32 --val-resize-size 36 --batch-size 16 "
                       "--epochs 4 --lr 0.05 --mean 0.5 --std 0.25 --output-dir {}",
                       (folder / "data").string(), run.string()));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
  }

  void write(const fs::path& path, int label) {
    const int w = 40 + static_cast<int>(random() % 30), h = 40 + static_cast<int>(random() % 30);
    std::vector<uint8_t> pixels(static_cast<size_t>(w) * h * 3);
    for (size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = static_cast<uint8_t>((i % 3 == 2u - label ? 150 : 50) + random() % 60);
    write_png(path, w, h, 3, pixels);
  }

  Outcome predict(const std::string& arguments) const { return program(0, "predict " + arguments); }

  Folder folder;
  const fs::path run = folder / "run";
  std::mt19937 random{7};
};

TEST_F(Predict, AgreesWithTheEvaluation) {
  const fs::path val = folder / "data" / "val";
  const Outcome outcome = predict(fmt::format("{} {} --format jsonl", run.string(), val.string()));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  const std::vector<json> lines = lines_of(outcome.output);
  ASSERT_EQ(lines.size(), 24u);
  double right = 0;
  for (const json& line : lines) {
    const fs::path path = line.at("path").get<std::string>();
    right += first_class(line) == path.parent_path().filename() ? 1 : 0;
    EXPECT_EQ(line.at("predictions").size(), 3u);
  }
  EXPECT_EQ(right, 22);
  EXPECT_DOUBLE_EQ(right / 24, accuracy_of(run));

  const Outcome newest = predict(fmt::format("{}/checkpoints {} --format jsonl", run.string(), val.string()));
  EXPECT_EQ(lines_of(newest.output).size(), 24u) << newest.output;
}

TEST_F(Predict, SaysWhatIsWrongWithEachFile) {
  const fs::path good = folder / "a b,c.png", cut = folder / "cut.png", html = folder / "page.jpg";
  write(good, 2);
  std::ofstream(cut, std::ios::binary) << read_file(good).substr(0, 200);
  std::ofstream(html) << "<html>";
  fs::create_directories(folder / "empty" / ".hidden");
  const Outcome outcome = shell(fmt::format(
      "printf '%s\\n' '{1}' '{2}' '{3}' '{4}' '' '{1}' | {0} predict {5} - {6} --top-k 1", DDP_PROGRAM, good.string(),
      cut.string(), html.string(), (folder / "none.png").string(), run.string(), (folder / "empty").string()));
  EXPECT_EQ(outcome.code, kBroken);
  std::vector<std::string> lines;
  std::istringstream stream(outcome.output);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 6u) << outcome.output;
  EXPECT_EQ(lines[0].find(good.string() + "  rot "), 0u) << lines[0];
  EXPECT_EQ(lines[1].find(cut.string() + "  error: "), 0u) << lines[1];
  EXPECT_EQ(lines[2].find(html.string() + "  error: "), 0u) << lines[2];
  EXPECT_EQ(lines[3].find((folder / "none.png").string() + "  error: cannot be read: No such file"), 0u) << lines[3];
  EXPECT_EQ(lines[4], lines[0]);
  EXPECT_NE(lines[5].find("a folder without pictures"), std::string::npos) << lines[5];
}

TEST_F(Predict, WeightsWithoutMetadataNeedOptions) {
  const fs::path bare = folder / "bare.safetensors", train = folder / "data" / "train";
  strip_metadata(run / "model.safetensors", bare);
  const Outcome refused = predict(fmt::format("{} {} --channels 3", bare.string(), train.string()));
  EXPECT_EQ(refused.code, static_cast<int>(Exit::usage));
  EXPECT_EQ(count(refused.output, "give --model, --classes or --class-names, --val-crop-size, --mean too"), 1)
      << refused.output;

  const std::string names = (folder / "names").string();
  std::ofstream(names) << "blue, deep\ngreen\r\nrot\n";
  const Outcome outcome = predict(
      fmt::format("{} {} --format csv --model keras-convnet --class-names {} --val-crop-size 32 --val-resize-size 36 "
                  "--channels 3 --mean 0.5 --std 0.25",
                  bare.string(), (train / "rot").string(), names));
  EXPECT_EQ(outcome.code, 0);
  const Outcome expected = predict(fmt::format("{} {} --format csv", run.string(), (train / "rot").string()));
  std::string text = expected.output;  // the same but for the name of class 1
  for (size_t at = 0; (at = text.find("\"green\nlight\"", at)) != std::string::npos;) text.replace(at, 13, "green");
  EXPECT_EQ(outcome.output, text);
  EXPECT_EQ(count(text, "\"blue, deep\""), 16);

  const Outcome both = predict(fmt::format("{} {} --channels 3", run.string(), train.string()));
  EXPECT_EQ(count(both.output, "--channels is for weights without metadata"), 1) << both.output;
}

TEST(PredictIdx, ReadsImagesAsTheyAre) {
  constexpr int kImages = 200;
  const Folder folder;
  few_images(folder / "data", 512, kImages);
  const fs::path run = folder / "run", pictures = folder / "pictures";
  const Outcome training =
      program(0, fmt::format("--data-path {} --model keras-convnet --epochs 2 --batch-size 32 --output-dir {}",
                             (folder / "data").string(), run.string()));
  ASSERT_EQ(training.code, 0) << training.output;
  const std::string images = read_file(folder / "data" / "t10k-images-idx3-ubyte"),
                    labels = read_file(folder / "data" / "t10k-labels-idx1-ubyte");
  fs::create_directories(pictures);
  const auto* pixels = reinterpret_cast<const uint8_t*>(images.data()) + 16;
  for (int i = 0; i < kImages; ++i)
    write_png(pictures / fmt::format("{:03}.png", i), 28, 28, 1, {pixels + i * 784, 784});
  write_png(pictures / "other.png", 28, 56, 1, {pixels, 2 * 784});

  const Outcome outcome = program(0, fmt::format("predict {} {} --format jsonl", run.string(), pictures.string()));
  EXPECT_EQ(outcome.code, kBroken) << outcome.output;
  const std::vector<json> lines = lines_of(outcome.output);
  ASSERT_EQ(lines.size(), kImages + 1u);
  double right = 0;
  for (int i = 0; i < kImages; ++i) {
    EXPECT_EQ(lines[i].at("path"), (pictures / fmt::format("{:03}.png", i)).string());
    right += first_class(lines[i]) == std::to_string(labels[8 + i]) ? 1 : 0;
  }
  EXPECT_DOUBLE_EQ(right / kImages, accuracy_of(run));
  EXPECT_NE(lines.back().at("error").get<std::string>().find("has 28 x 56 pixels, and the network reads 28 x 28"),
            std::string::npos)
      << lines.back();
}

}  // namespace
}  // namespace ddp::testing
