// ddp_train predict: from a training to what the network sees in pictures.
#include "core/error.h"
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/job.h"
#include "tests/system/cli/three_colours.h"

namespace ddp::testing {
namespace {

constexpr int kBroken = static_cast<int>(Exit::data);

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  return lines;
}

std::string first_class(const json& line) { return line.at("predictions").at(0).at("class"); }

class Predict : public ThreeColours {
 protected:
  Outcome predict(const std::string& arguments) const { return program(0, "predict " + arguments); }
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

  // Of what a folder leaves out, a few files are named.
  for (const char* name : {"a.webp.txt", "1.tiff", "2.tiff", "3.bmp", "4.GIF", ".hidden.tiff"})
    std::ofstream(val / name) << "x";
  const Outcome newest = predict(fmt::format("{}/checkpoints {} --format jsonl", run.string(), val.string()));
  EXPECT_EQ(newest.code, kBroken);
  const std::string named = fmt::format("{0}/1.tiff, {0}/2.tiff, {0}/3.bmp and 1 more\n", val.string());
  EXPECT_EQ(
      count(newest.output, "warning: 4 pictures are of a kind that is not read; convert to .jpg or .png: " + named), 1)
      << newest.output;
  EXPECT_EQ(count(newest.output, fmt::format("1 file is no picture and not read: {}/a.webp.txt\n", val.string())), 1)
      << newest.output;
  EXPECT_EQ(count(newest.output, "{\"path\""), 24) << newest.output;
}

TEST_F(Predict, SaysWhatIsWrongWithEachFile) {
  const fs::path good = folder / "a b,c.png", cut = folder / "cut.png", html = folder / "page.jpg";
  write(good, 2);
  std::ofstream(cut, std::ios::binary) << read_file(good).substr(0, 200);
  std::ofstream(html) << "<html>";
  fs::create_directories(folder / "empty" / ".hidden");
  const Outcome outcome =
      shell(fmt::format("printf '%s\\n' '{1}' '{2}' '{3}' '{4}' '' '{1}' | {0} predict {5} - {6} {7} --top-k 1",
                        DDP_PROGRAM, good.string(), cut.string(), html.string(), (folder / "none.png").string(),
                        run.string(), (folder / "empty").string(), DDP_PICTURES "/animated.webp"));
  EXPECT_EQ(outcome.code, kBroken);
  std::vector<std::string> lines;
  std::istringstream stream(outcome.output);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 8u) << outcome.output;
  EXPECT_EQ(lines[0].find(good.string() + "  rot "), 0u) << lines[0];
  EXPECT_EQ(lines[1].find(cut.string() + "  error: "), 0u) << lines[1];
  EXPECT_EQ(lines[2].find(html.string() + "  error: "), 0u) << lines[2];
  EXPECT_EQ(lines[3].find((folder / "none.png").string() + "  error: cannot be read: No such file"), 0u) << lines[3];
  EXPECT_EQ(lines[4], lines[0]);
  EXPECT_NE(lines[5].find("no name in it ends in .jpg, .jpeg, .png or .webp"), std::string::npos) << lines[5];
  EXPECT_EQ(lines[6].find(DDP_PICTURES "/animated.webp  "), 0u) << lines[6];
  EXPECT_EQ(lines[7], "warning: 1 of 7 pictures are animated: the first frame is read");
}

// Three batches of 25 or 26 pictures, which two and three ranks share.
TEST_F(Predict, WritesTheSameLinesOnAnyNumberOfRanks) {
  const fs::path odd = folder / "odd", table = folder / "table.csv";
  fs::create_directories(odd);
  for (const char* name : {"a\nb.png", "q\"uote, d.png", "caf\xe9.png"}) write(odd / name, 1);
  std::ofstream(odd / "cut.png", std::ios::binary) << read_file(odd / "a\nb.png").substr(0, 200);
  const std::string inputs = fmt::format("{} {} {} --top-k 2", run.string(), (folder / "data").string(), odd.string());

  const Outcome alone = predict(inputs + " --format csv");
  EXPECT_EQ(alone.code, kBroken) << alone.output;
  EXPECT_EQ(count(alone.output, "path,error,class1,probability1,class2,probability2\n"), 1);
  EXPECT_EQ(count(alone.output, ".png"), 76);
  EXPECT_EQ(count(alone.output, fmt::format("\"{}/a\nb.png\",,", odd.string())), 1) << alone.output;
  EXPECT_EQ(count(alone.output, fmt::format("\"{}/q\"\"uote, d.png\",,", odd.string())), 1) << alone.output;
  EXPECT_EQ(count(alone.output, fmt::format("\n{}/caf\xe9.png,,", odd.string())), 1) << alone.output;
  for (const int ranks : {0, 2, 3}) {
    const fs::path file = folder / fmt::format("table{}.csv", ranks);
    const Outcome outcome = program(ranks, fmt::format("predict {} --csv {}", inputs, file.string()));
    EXPECT_EQ(outcome.code, kBroken) << outcome.output;
    EXPECT_EQ(count(outcome.output, file.string() + ": 76 pictures, 1 of them without a prediction\n"), 1)
        << outcome.output;
    EXPECT_TRUE(read_file(file) == alone.output) << ranks;
  }

  const std::string three = fmt::format("{} {} --json", run.string(), odd.string());
  const Outcome json_alone = predict(three), json_shared = program(2, "predict " + three);
  EXPECT_EQ(lines_of(json_alone.output).size(), 4u);
  EXPECT_EQ(json_shared.code, kBroken);
  EXPECT_EQ(count(json_shared.output, json_alone.output), 1) << json_shared.output;

  fs::create_symlink(folder / "nowhere", table);
  const Outcome refused = program(2, fmt::format("predict {} --csv {}", inputs, table.string()));
  EXPECT_EQ(refused.code, static_cast<int>(Exit::output));
  EXPECT_EQ(count(refused.output, fmt::format("error: rank 0: cannot create {}: File exists", table.string())), 1)
      << refused.output;
  EXPECT_FALSE(fs::exists(folder / "nowhere"));
}

// The exit code and one message say that lines are missing.
TEST_F(Predict, StopsOnAllRanks) {
  std::string many;
  for (int i = 0; i < 500; ++i) many += " " + (folder / "data").string();
  Job job(folder, 2, fmt::format("predict {} --format csv --threads 1{}", run.string(), many));
  ASSERT_TRUE(job.says("path,error,class1")) << job.output();
  ::kill(job.rank(1), SIGUSR1);
  EXPECT_EQ(job.end(), static_cast<int>(Exit::stopped)) << job.output().substr(0, 2000);
  EXPECT_EQ(count(job.output(), "stopped by a signal before the end: lines are missing\n"), 1);
}

TEST_F(Predict, WeightsWithoutMetadataNeedOptions) {
  const fs::path bare = folder / "bare.safetensors", train = folder / "data" / "train";
  strip_metadata(run / "model.safetensors", bare);
  const Outcome refused = predict(fmt::format("{} {} --channels 3", bare.string(), train.string()));
  EXPECT_EQ(refused.code, static_cast<int>(Exit::usage));
  EXPECT_EQ(count(refused.output,
                  "give --model, and for a network that reads images --classes or --class-names, --val-crop-size, "
                  "--mean too"),
            1)
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
  const TempFolder folder;
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
