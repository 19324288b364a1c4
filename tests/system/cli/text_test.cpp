// A network that reads tokens: trained on a small text, then used from its run alone.
#include "core/error.h"
#include "data/text/vocabulary.h"
#include "tests/system/cli/program.h"
#include "tests/temp_folder.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace ddp::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

void write_tokens(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  for (const int32_t token : Vocabulary::bytes().encode(text)) {
    const auto number = static_cast<uint16_t>(token);
    file.write(reinterpret_cast<const char*>(&number), sizeof number);
  }
}

constexpr const char* kNetwork = R"(layers = [
  { embedding = 32, rows = "classes", init = { normal = 0.1 }, label = "table", name = "wte" },
  { position_embedding = 32, init = { normal = 0.1 }, label = "x", name = "wpe" },
  { layer_norm = true },
  { linear = "3 * channels", transposed = true },
  { scaled_dot_product_attention = 2, causal = true },
  { linear = "channels" },
  { add = "x", label = "y" },
  { layer_norm = true },
  { linear = 64 },
  { activation = "gelu_tanh" },
  { linear = 32 },
  { add = "y" },
  { layer_norm = true },
  { linear = "classes", tied = "table", name = "lm_head" },
]
)";
const std::string kSentence = "the cafés sat on a mat. ";

class Text : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder();
    std::string text;
    for (int i = 0; i < 200; ++i) text += kSentence;
    fs::create_directories(*folder_ / "data");
    folder_->write("data/vocabulary.txt", Vocabulary::bytes().text());
    write_tokens(*folder_ / "data" / "train.bin", text);
    write_tokens(*folder_ / "data" / "val.bin", text.substr(0, 1000));
    folder_->write("small.toml", kNetwork);
    training_ = new Outcome(program(1, fmt::format("{} --max-steps 300 --output-dir {}", data(16), path("run"))));
  }
  static void TearDownTestSuite() {
    delete training_;
    delete folder_;
  }

  static std::string path(const char* name) { return (*folder_ / name).string(); }
  static std::string data(int sequence_length) {
    return fmt::format(
        "--model {} --dataset tokens --data-path {} --sequence-length {} "
        "--batch-size 16 --epochs 20 --optimizer adamw --lr 0.01 --threads 1",
        path("small.toml"), path("data"), sequence_length);
  }
  void SetUp() override { ASSERT_EQ(training_->code, 0) << training_->output; }

  static void expect_refused(Exit code, const std::string& message, int ranks, const std::string& arguments) {
    const Outcome outcome = program(ranks, arguments);
    EXPECT_EQ(outcome.code, static_cast<int>(code)) << outcome.output;
    EXPECT_EQ(count(outcome.output, message), 1) << outcome.output;
    EXPECT_EQ(count(outcome.output, "error: "), 1) << outcome.output;
  }

  static TempFolder* folder_;
  static Outcome* training_;
};

TempFolder* Text::folder_ = nullptr;
Outcome* Text::training_ = nullptr;

TEST_F(Text, IsContinuedByTheRunAlone) {
  const std::string predict = fmt::format("predict {} ", path("run"));
  const Outcome greedy = program(0, predict + "'the cafés' --temperature 0 --max-new-tokens 50");
  ASSERT_EQ(greedy.code, 0) << greedy.output;
  EXPECT_EQ(greedy.output, "the cafés sat on a mat. the cafés sat on a mat. the cafés\n");

  // Two texts and one of the standard input, which is longer than the sequence.
  const std::string many = fmt::format(
      "printf 'the cafés sat on a mat. the\\n' | {} {} 'on' '' - --json --temperature 2 --sample-top-k 5 "
      "--max-new-tokens 20 --seed ",
      DDP_PROGRAM, predict);
  const Outcome first = shell(many + "7"), again = shell(many + "7"), other = shell(many + "8");
  ASSERT_EQ(first.code, 0) << first.output;
  EXPECT_EQ(first.output, again.output);
  EXPECT_NE(first.output, other.output);
  EXPECT_EQ(count(first.output, "a prompt has 28 tokens, and the network reads 16: the last 16 are read"), 1)
      << first.output;
  std::vector<json> lines;
  std::istringstream stream(first.output);
  for (std::string line; std::getline(stream, line);)
    if (line.starts_with("{")) lines.push_back(json::parse(line));
  ASSERT_EQ(lines.size(), 3u) << first.output;
  EXPECT_EQ(lines[0].at("prompt"), "on");
  EXPECT_EQ(lines[1].at("prompt"), "");
  for (const json& line : lines) EXPECT_LE(line.at("tokens").size(), 20u);
  EXPECT_GT(lines[0].at("tokens").size(), 0u);

  const Outcome checkpoint =
      program(0, fmt::format("predict {}/checkpoints on --temperature 0 --max-new-tokens 3", path("run")));
  EXPECT_EQ(checkpoint.output, "on a \n");

  // Without the run's folder, the vocabulary is an option.
  fs::create_directories(*folder_ / "alone");
  fs::copy(*folder_ / "run" / "model.safetensors", *folder_ / "alone" / "model.safetensors");
  const std::string alone = fmt::format("predict {}/model.safetensors on --temperature 0 ", path("alone"));
  expect_refused(Exit::usage, "its run has no vocabulary.txt; give --vocabulary FILE, or bytes", 0, alone);
  const Outcome bytes = program(0, alone + "--vocabulary bytes --max-new-tokens 3");
  EXPECT_EQ(bytes.output, "on a \n");
  folder_->write("merges.txt", "#version: 0.2\nt h\n");
  expect_refused(Exit::data, "has 258 tokens, and the network small has 257", 0,
                 fmt::format("{} --vocabulary {}", alone, path("merges.txt")));

  expect_refused(Exit::usage, "--top-k is for a network that reads pictures, and small reads text", 0,
                 predict + "a --top-k 3");
  expect_refused(Exit::usage, "predict continues texts on one rank, not on 2: start it without mpirun", 2,
                 predict + "a");
}

TEST_F(Text, IsEvaluatedExportedAndShown) {
  const json summary = json::parse(read_file(*folder_ / "run" / "summary.json"));
  const Outcome evaluated = program(1, fmt::format("evaluate {} --dataset tokens --data-path {} --batch-size 16 "
                                                   "--threads 1 --output-dir {}",
                                                   path("run"), path("data"), path("figures")));
  ASSERT_EQ(evaluated.code, 0) << evaluated.output;
  const json report = json::parse(read_file(*folder_ / "figures" / "evaluation.json"));
  EXPECT_EQ(report.at("loss"), summary.at("test_loss"));
  EXPECT_EQ(report.at("perplexity"), summary.at("perplexity"));
  EXPECT_EQ(report.at("accuracy"), summary.at("test_accuracy"));
  EXPECT_LT(report.at("loss").get<double>(), 0.5);

  const Outcome exported = program(0, fmt::format("export {} --output {}", path("run"), path("small.onnx")));
  EXPECT_EQ(exported.code, 0) << exported.output;
  EXPECT_EQ(count(exported.output, "small, input i64 (batch, sequence), logits f32 (batch, sequence, 257)"), 1)
      << exported.output;
  expect_refused(Exit::usage, "small reads tokens", 0,
                 fmt::format("export {} --with-preprocessing --output {}", path("run"), path("other.onnx")));

  const Outcome shown = program(0, fmt::format("show-model {} --svg {}", path("run"), path("small.svg")));
  EXPECT_EQ(shown.code, 0) << shown.output;
  EXPECT_EQ(count(shown.output, ", sequences of 16 tokens"), 1) << shown.output;
  const Outcome large = program(0, "show-model gpt2-124m --batch-size 1");
  EXPECT_EQ(large.code, 0) << large.output;
  EXPECT_EQ(count(large.output, "gpt2-124m, sequences of 1024 tokens"), 1) << large.output;
  EXPECT_EQ(count(large.output, " 124439808 parameters"), 1) << large.output;
  EXPECT_EQ(count(large.output, "a rank with 1 sequence: "), 1) << large.output;
  expect_refused(Exit::usage, "--image: gpt-tiny reads tokens, not images", 0, "show-model gpt-tiny --image 32x32x3");

  // The table of positions has the same shape for any sequence.
  const Outcome longer =
      program(1, fmt::format("{} --init-from {} --max-steps 1 --output-dir {}", data(24), path("run"), path("longer")));
  EXPECT_EQ(longer.code, 0) << longer.output;
}

}  // namespace
}  // namespace ddp::testing
