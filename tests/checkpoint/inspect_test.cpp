#include "checkpoint/inspect.h"

#include "tests/checkpoint/fixture.h"

#include <limits>

namespace ddp {
namespace {

class Inspect : public CheckpointFolder {
 protected:
  Inspect() {
    Snapshot snapshot = weights.snapshot(1);
    snapshot.model.weights = std::vector<float>(flat_count(weights.parameters));
    snapshot.model.weights[16] = 4;
    snapshot.model.weights[17] = -3;
    snapshot.model.weights[2] = std::numeric_limits<float>::infinity();
    snapshot.run.epoch = 6;
    snapshot.run.cursor = 512;
    snapshot.run.accuracy = 0.8765;
    snapshot.run.affects_results = {{"lr", "0.2"}};
    snapshot.run.affects_rounding = {{"ranks", "3"}};
    write_checkpoint(folder, snapshot.view(), weights.tensors(), false);
  }
  static std::string inspected(const fs::path& path) { return inspect(std::vector<std::string>{path.string()}); }
  static void expect_in(const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
  }
};

TEST_F(Inspect, PrintsACheckpoint) {
  const std::string text = inspected(folder / "latest");
  expect_in(text, {"step 1, 512 samples into epoch 6", "256 samples in", "accuracy 0.8765, best none yet", "lr = 0.2",
                   "ranks = 3", "model.safetensors: 2 tensors", "optimizer.safetensors: 4 tensors",
                   "0.weight.exp_avg_sq", "[2, 3]", "1 not finite", "format: pt", R"(model: a\x09network)"});
  const size_t bias = text.find("0.bias");
  const std::string line = text.substr(bias, text.find('\n', bias) - bias);
  expect_in(line, {"F32", "[2]", " -3 ", " 4 ", " 5"});  // minimum, maximum, norm
}

TEST_F(Inspect, PrintsTheBestEpoch) {
  Snapshot snapshot = weights.snapshot(3);
  snapshot.run.best_accuracy = 0.9;
  snapshot.run.best_epoch = 2;
  snapshot.run.bn_stats_samples = 500;
  snapshot.run.plateau = PlateauState{.best = 1.5, .bad = 2, .factor = 0.25};
  snapshot.run.early_stop = EarlyStopState{.best = 0.75, .best_epoch = 1, .bad = 3};
  snapshot.average = snapshot.model;
  write_checkpoint(folder, snapshot.view(), weights.tensors(), false);
  expect_in(inspected(folder),
            {"best 0.9000 after epoch 2\n", "recomputed from 500 training samples",
             "plateau: the rate is multiplied by 0.25; best 1.5, 2 evaluations since, cooldown of 0\n",
             "early stop: best accuracy 0.7500, 3 evaluations since\n", "model_ema.safetensors: 2 tensors"});
  snapshot.run.best_loss = 3.25;
  snapshot.run.early_stop->best_loss = 3.5;
  snapshot.run.step = 4;
  write_checkpoint(folder, snapshot.view(), weights.tensors(), false);
  expect_in(inspected(folder),
            {"best loss 3.2500 after epoch 2\n", "early stop: best loss 3.5000, 3 evaluations since\n"});
}

TEST_F(Inspect, PrintsTheNewestValidCheckpointOfARun) {
  fs::remove(write(2) / "state.json");
  for (const fs::path& path : {run, folder})
    expect_in(inspected(path), {"skipped: " + (folder / "step-00000002" / "state.json").string(), "step 1, 512"});
}

TEST_F(Inspect, PrintsAWeightsFile) {
  const std::string text = inspected(folder / "latest" / "model.safetensors");
  EXPECT_EQ(text.rfind("model.safetensors: 2 tensors", 0), 0u) << text;
}

// Names of tensors, metadata and the maps of a state may have the text of a stranger.
TEST_F(Inspect, EscapesTextOfTheFile) {
  const std::string evil = "\x1b]0;owned\a\r\nall is well \u202e\x7f";
  const fs::path file = run / "evil.safetensors";
  write_safetensors(file, sources_of({{evil, {1}, {1}}}), {{evil, evil}});
  Snapshot snapshot = weights.snapshot(2);
  snapshot.run.affects_results = snapshot.run.affects_rounding = snapshot.run.autotune = {{evil, evil}};
  write_checkpoint(folder, snapshot.view(), weights.tensors(), false);
  for (const std::string& text : {inspected(file), inspected(folder / "latest")}) {
    EXPECT_TRUE(std::ranges::none_of(text, [](char c) { return (c >= 0 && c < ' ' && c != '\n') || c == 0x7f; }));
    EXPECT_EQ(text.find("\nall is well"), text.npos) << text;
    EXPECT_EQ(text.find("\u202e"), text.npos) << text;
    EXPECT_NE(text.find("\\x1B]0;owned\\x07\\x0D\\x0Aall is well"), text.npos) << text;
  }
}

TEST_F(Inspect, PrintsLittleForASmallFile) {
  std::vector<NamedTensor> tensors = {{std::string(20'000, 'x'), {0}, {}}};
  for (int i = 0; i < 1'000; ++i) tensors.push_back({fmt::format("{}", i), {0}, {}});
  const fs::path file = run / "wide.safetensors";
  write_safetensors(file, sources_of(tensors));
  EXPECT_LT(inspected(file).size(), 10 * fs::file_size(file));
}

TEST_F(Inspect, ReportsBrokenOrMissingFiles) {
  fs::resize_file(folder / "latest" / "model.safetensors", 50);
  expect_error(error_of([&] { inspected(folder / "latest"); }), Exit::data, "truncated");
  expect_error(error_of([&] { inspected(folder / "latest" / "model.safetensors"); }), Exit::data, "model.safetensors");
  expect_error(error_of([&] { inspected(run); }), Exit::data, "no checkpoint");
  expect_error(error_of([&] { inspected(run / "nowhere"); }), Exit::data, "missing");
  fs::create_directories(run / "empty" / "checkpoints");
  expect_error(error_of([&] { inspected(run / "empty"); }), Exit::data, "has no checkpoint");
}

TEST_F(Inspect, TakesOnePathAndNoOptions) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{{}, {"a", "b"}, {"--all"}, {""}})
    expect_error(error_of([&] { inspect(arguments); }), Exit::usage, "usage: ddp_train inspect");
}

}  // namespace
}  // namespace ddp
