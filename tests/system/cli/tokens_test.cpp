// A run on token files.
#include "core/error.h"
#include "data/text/vocabulary.h"
#include "tests/system/cli/run_folder.h"

#include <cstdint>
#include <regex>
#include <string>
#include <vector>

namespace ddp::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

template <class Number>
std::string tokens(int64_t count, Number least = 0) {
  std::vector<Number> all(static_cast<size_t>(count));
  uint32_t state = 1;
  for (int64_t i = 0; i < count; ++i) {
    if (i % 7 == 0) state = state * 1664525 + 1013904223;
    all[i] = static_cast<Number>(least + (state >> 16) % 50 + i % 7);
  }
  return {reinterpret_cast<const char*>(all.data()), all.size() * sizeof(Number)};
}

std::string with_header(const std::string& tokens) {
  std::vector<int32_t> header(256);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = static_cast<int32_t>(tokens.size() / 2);
  return std::string(reinterpret_cast<const char*>(header.data()), 1024) + tokens;
}

class Tokens : public ::testing::Test {
 protected:
  Tokens() {
    const std::string network = read_file(DDP_LAUNCH "/../src/nn/models/gpt-tiny.toml");
    folder_.write("small.toml", std::regex_replace(network, std::regex("384"), "24"));
    folder_.write("text/some_train_000.bin", with_header(tokens<uint16_t>(16 * 30 + 1)));
    folder_.write("text/some_train_001.bin", with_header(tokens<uint16_t>(16 * 12 + 5)));
    folder_.write("text/some_val_000.bin", with_header(tokens<uint16_t>(16 * 7 + 1)));
  }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  std::string training(const char* run, const char* data, const std::string& more) const {
    const std::string model = count(more, "--model ") > 0 ? "" : "--model " + path("small.toml");
    return fmt::format("{} --data-path {} --batch-size 8 --threads 1 --lr 0.1 --output-dir {} {}", model, path(data),
                       path(run), more);
  }
  Outcome expect_code(Exit code, const std::string& message, int ranks, const std::string& arguments) const {
    Outcome outcome = program(ranks, arguments);
    EXPECT_EQ(outcome.code, static_cast<int>(code)) << outcome.output;
    EXPECT_EQ(count(outcome.output, message), 1) << outcome.output;
    EXPECT_EQ(count(outcome.output, "error: "), code == Exit::done ? 0 : 1) << outcome.output;
    return outcome;
  }
  const TempFolder folder_;
};

// Six steps an epoch; the last one has 2 windows.
TEST_F(Tokens, KilledRunEndsWithTheSameBytes) {
  const fs::path vocabulary = folder_.write("words.bpe", Vocabulary::bytes().text());
  const std::string others = "--vocabulary " + vocabulary.string() + " --epochs 2 --momentum 0.9 --workers 2 ",
                    options = others + "--sequence-length 16 ";
  expect_code(Exit::done, "tokens: 42 training and 7 test samples, windows of 16 tokens of a vocabulary of 257\n", 2,
              training("whole", "text", options + "--save-every never"));
  const json run = events(folder_ / "whole", "run").at(0);
  EXPECT_EQ(run.at("data"), "tokens");
  EXPECT_EQ(run.at("sequence_length"), 16);
  EXPECT_EQ(run.at("steps_per_epoch"), 6);
  const auto losses = values_of<double>(folder_ / "whole", "eval", "loss");
  ASSERT_EQ(losses.size(), 2);
  EXPECT_LT(losses[1], losses[0]);
  EXPECT_LT(losses[0], 5.6);

  const Outcome killed =
      program(2, training("cut", "text", options + "--save-every 2steps --inject kind=kill,rank=1,step=11"));
  EXPECT_TRUE(was_killed(killed.code)) << killed.output;
  expect_code(Exit::usage, "84 and 14 windows of 8 tokens", 2,
              training("cut", "text", others + "--sequence-length 8 --resume auto"));
  fs::rename(vocabulary, folder_ / "moved.bpe");  // the run keeps a copy
  const Outcome resumed = program(2, training("cut", "text", options + "--resume auto"));
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_EQ(count(resumed.output, "resumed from "), 1) << resumed.output;
  EXPECT_EQ(count(resumed.output, "not bit-identical"), 0) << resumed.output;
  EXPECT_TRUE(read_file(folder_ / "cut" / "model.safetensors") == read_file(folder_ / "whole" / "model.safetensors"));
}

// One step each. The network has 256 positions. A raw file of uint32 has twice as many numbers of uint16.
TEST_F(Tokens, OptionsSayWhatTheFilesHold) {
  folder_.write("wide.bin", tokens<uint32_t>(16 * 10 + 1, 66'000));
  const auto begun = [&](const char* run, const char* data, const std::string& more) {
    expect_code(Exit::done, "results in ", 0, training(run, data, "--max-steps 1 --save-every never " + more));
    return events(folder_ / run, "run").at(0);
  };
  json run = begun("wide", "wide.bin", "--token-type uint32 --sequence-length 16 --vocab-size 66100");
  EXPECT_EQ(run.at("training_samples"), 10);
  EXPECT_EQ(run.at("test_samples"), 0);
  EXPECT_EQ(run.at("classes"), 66'100);
  EXPECT_EQ(read_weights(folder_ / "wide/model.safetensors").at("transformer.wte.weight").size(), 66'100 * 24);
  run = begun("narrow", "wide.bin", "--token-type uint16 --sequence-length 8 --vocab-size 65536 --val-split 0.25");
  EXPECT_EQ(run.at("training_samples"), 30);
  EXPECT_EQ(run.at("test_samples"), 9);
  folder_.write("long.bin", tokens<uint16_t>(256 * 4 + 1));
  run = begun("tokens", "long.bin", "--dataset tokens --vocab-size 300 --train-samples 3");
  EXPECT_EQ(run.at("training_samples"), 3);
  EXPECT_EQ(run.at("sequence_length"), 256);
  run = begun("bytes", "text", "--model gpt-tiny --vocabulary bytes --sequence-length 16");
  EXPECT_EQ(run.at("classes"), 257);
  EXPECT_EQ(Vocabulary::read(folder_ / "bytes/vocabulary.txt").size(), 257);
}

// The first windows with a foreign token are read by a step: the fingerprint of the data reads every second window.
TEST_F(Tokens, ATokenOutsideOfTheVocabularyIsNamedOnce) {
  std::string text = tokens<uint16_t>(4 * 600 + 1);
  for (size_t window = 1; window < 600; window += 2) text[2 * (4 * window + 2) + 1] = 1;  // adds 256
  folder_.write("broken.bin", text);
  const Outcome outcome =
      expect_code(Exit::data, " is not in the vocabulary of 57 tokens; give --vocab-size", 2,
                  training("broken", "broken.bin", "--sequence-length 4 --vocab-size 57 --epochs 1"));
  EXPECT_EQ(count(outcome.output, " is saved: mend the data and resume the run\n"), 1) << outcome.output;
  folder_.write("broken.bin", tokens<uint16_t>(4 * 600 + 1));
  expect_code(Exit::done, "resumed from ", 2,
              training("broken", "broken.bin", "--sequence-length 4 --vocab-size 57 --epochs 1 --resume auto"));
}

TEST_F(Tokens, AreRefusedWhereTheyDoNotFit) {
  expect_code(Exit::usage, "--model lenet reads images, but the data set holds tokens", 2,
              fmt::format("--data-path {} --sequence-length 16 --output-dir {}", path("text"), path("none")));
  expect_code(Exit::usage, "--model gpt-tiny reads tokens, but the data set holds images; give --dataset tokens", 0,
              fmt::format("--model gpt-tiny --output-dir {}", path("none")));
  expect_code(Exit::usage, "--random-erase needs images; the data set is tokens", 0,
              training("none", "text", "--random-erase 0.1"));
  expect_code(Exit::usage, "--vocab-size 300: --vocabulary bytes has 257 tokens", 0,
              training("none", "text", "--vocabulary bytes --vocab-size 300"));
  expect_code(Exit::usage, "some_val_000.bin is validation data already", 0,
              training("none", "text", "--val-split 0.1"));
  expect_code(Exit::usage, "show draws images; the data set is tokens", 0,
              fmt::format("show --data-path {} --sequence-length 16 --output {}", path("text"), path("grid.png")));
  EXPECT_FALSE(fs::exists(folder_ / "none"));
  folder_.write("long.bin", tokens<uint16_t>(256 * 4 + 1));
  expect_code(Exit::done, "tokens: 4 training and 0 test windows of 256 tokens of a vocabulary of 50257\n", 0,
              training("none", "long.bin", "--doctor"));
}

}  // namespace
}  // namespace ddp::testing
