#include "checkpoint/checkpoint.h"

#include "checkpoint/safetensors.h"
#include "core/durable_file.h"
#include "nn/models.h"
#include "tests/checkpoint/fixture.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <limits>

namespace ddp {
namespace {

using Names = std::vector<std::string>;

Weights weights_of(const char* model, int64_t multiple) {
  const Network network = make_model(model, {28, 28, 1}, 10);
  return {.parameters = parameters_of(network, multiple), .batch_norms = batch_norm_states_of(network)};
}

class Checkpoint : public CheckpointFolder {};

TEST_F(Checkpoint, NetworksAndAdamStateRoundTrip) {
  for (const char* model : {"lenet", "keras-convnet"}) {
    const Weights network = weights_of(model, 1);
    const Snapshot saved = network.snapshot(12);
    const fs::path path = write_checkpoint(folder, saved.view(), network.tensors(), false);
    EXPECT_EQ(path, folder / "step-00000012");
    const Snapshot read = read_checkpoint(path, network.tensors(), kAdam);
    EXPECT_EQ(read.model.weights, saved.model.weights) << model;
    EXPECT_EQ(read.model.statistics, saved.model.statistics) << model;
    EXPECT_EQ(read.model.updates, saved.model.updates) << model;
    ASSERT_EQ(read.optimizer.size(), 2u);
    for (size_t k = 0; k < 2; ++k) {
      EXPECT_EQ(read.optimizer[k].name, kAdam[k]);
      EXPECT_EQ(read.optimizer[k].values, saved.optimizer[k].values) << model;
    }
  }
}

// The statistics of an evaluation are in model.safetensors, which says so; the running averages are beside them.
TEST_F(Checkpoint, StatisticsOfAnEvaluationAndRunningAveragesRoundTrip) {
  const Weights network = weights_of("keras-convnet", 1);
  Snapshot saved = network.snapshot(12);
  const auto said = [&] {
    return read_safetensors_metadata(folder / "latest" / "model.safetensors").at("batch_norm_statistics");
  };
  write_checkpoint(folder, saved.view(), network.tensors(), false);
  EXPECT_EQ(said(), "running averages");

  saved.run.bn_stats_samples = 500;
  saved.running_stats = saved.model.statistics;
  for (float& value : saved.running_stats) value *= 3;
  const fs::path path = write_checkpoint(folder, saved.view(), network.tensors(), false);
  EXPECT_EQ(said(), "recomputed from 500 training samples");
  const Snapshot read = read_checkpoint(path, network.tensors(), kAdam);
  EXPECT_EQ(read.model.statistics, saved.model.statistics);
  EXPECT_EQ(read.running_stats, saved.running_stats);
  EXPECT_EQ(read_safetensors(path / "optimizer.safetensors").at("1.running_mean").values[0], saved.running_stats[0]);

  saved.run.bn_stats_samples = 0;
  saved.running_stats = {};
  write_checkpoint(folder, saved.view(), network.tensors(), false);
  std::string state = content_of(path / "state.json");
  const std::string none = "\"bn_stats_samples\": 0";
  put(path / "state.json", state.replace(state.find(none), none.size(), "\"bn_stats_samples\": 500"));
  fs::remove(path / "manifest.json");
  write_manifest(path, kCheckpointFiles);
  expect_error(error_of([&] { read_checkpoint(path, network.tensors(), kAdam); }), Exit::model,
               "optimizer.safetensors does not fit the model and its optimizer: 22 of its 28 tensors fit; not in the "
               "file: 1.running_mean,");
}

// A checkpoint without an average has no such file.
TEST_F(Checkpoint, AverageRoundTripsAndItsFileIsVerified) {
  const Weights network = weights_of("keras-convnet", 1);
  Snapshot saved = network.snapshot(12);
  fs::path path = write_checkpoint(folder, saved.view(), network.tensors(), false);
  const fs::path file = path / "model_ema.safetensors";
  EXPECT_FALSE(fs::exists(file));
  expect_error(error_of([&] { read_checkpoint(path, network.tensors(), kAdam, true); }), Exit::data,
               "model_ema.safetensors");

  saved.average = saved.model;
  for (float& value : saved.average->weights) value *= 2;
  for (float& value : saved.average->statistics) value *= 3;
  path = write_checkpoint(folder, saved.view(), network.tensors(), false);
  const Snapshot read = read_checkpoint(path, network.tensors(), kAdam, true);
  EXPECT_EQ(read.model.weights, saved.model.weights);
  ASSERT_TRUE(read.average);
  EXPECT_EQ(read.average->weights, saved.average->weights);
  EXPECT_EQ(read.average->statistics, saved.average->statistics);
  EXPECT_EQ(read_safetensors_metadata(file).at("weights"), "exponential moving average");
  EXPECT_EQ(read_safetensors_metadata(path / "model.safetensors").count("weights"), 0u);

  std::string content = content_of(file);
  content.back() = static_cast<char>(content.back() ^ 1);
  put(file, content);
  expect_error(error_of([&] { read_run_state(path); }), Exit::data, "does not match the checksum in its manifest");
  fs::remove(file);
  expect_error(error_of([&] { read_run_state(path); }), Exit::data, "model_ema.safetensors");
}

TEST_F(Checkpoint, LoadsIntoABufferWithAnotherAlignment) {
  const Weights one = weights_of("lenet", 1), three = weights_of("lenet", 48);
  ASSERT_NE(flat_count(one.parameters), flat_count(three.parameters));
  const fs::path path = write_checkpoint(folder, three.snapshot(1).view(), three.tensors(), false);
  const Snapshot read = read_checkpoint(path, one.tensors(), kAdam);
  EXPECT_EQ(read.model.weights, one.snapshot(1).model.weights);
  EXPECT_EQ(read.optimizer[1].values, one.snapshot(1).optimizer[1].values);
}

TEST_F(Checkpoint, OptimizersTensorsHavePytorchsShapes) {
  const Weights network = weights_of("lenet", 1);
  const auto tensors = read_safetensors(write_checkpoint(folder, network.snapshot(1).view(), network.tensors(), false) /
                                        "optimizer.safetensors");
  EXPECT_EQ(tensors.size(), 2 * network.parameters.size());
  EXPECT_EQ(tensors.at("3.weight.exp_avg_sq").shape, (std::vector<int64_t>{50, 20, 5, 5}));
}

// Other optimizer states read the file too. One that lacks a tensor, or has a NaN, is refused.
TEST_F(Checkpoint, ResidualsOfHostsRoundTrip) {
  Snapshot saved = weights.snapshot(1);
  saved.residuals = {weights.values(2), weights.values(-3)};
  const fs::path path = write_checkpoint(folder, saved.view(), weights.tensors(), false),
                 file = path / "optimizer.safetensors";
  EXPECT_EQ(read(path).residuals, saved.residuals);
  EXPECT_EQ(read_checkpoint(write(2), weights.tensors(), kAdam).residuals.size(), 0u);

  const std::string& last = weights.parameters.back().name;
  std::vector<TensorSource> tensors;
  for (const auto& [name, tensor] : read_safetensors(file))
    if (name != last + ".residual.1")
      tensors.push_back({name, tensor.shape, [values = tensor.values] { return values; }});
  const auto replaced = [&] {
    write_safetensors(file, tensors);
    fs::remove(path / "manifest.json");
    write_manifest(path, kCheckpointFiles);
    return error_of([&] { read(path); });
  };
  expect_error(replaced(), Exit::model, last + ".residual.1");

  std::vector<float> values(weights.parameters.back().count);
  values[0] = NAN;
  tensors.push_back({last + ".residual.1", weights.parameters.back().pytorch_shape, [values] { return values; }});
  expect_error(replaced(), Exit::data, "has a NaN or an infinity in a residual.1");
}

TEST_F(Checkpoint, OptimizerWithoutStateIsSaved) {
  Snapshot snapshot = weights.snapshot(1);
  snapshot.optimizer.clear();
  const fs::path path = write_checkpoint(folder, snapshot.view(), weights.tensors(), false);
  EXPECT_TRUE(read_checkpoint(path, weights.tensors(), {}).optimizer.empty());
}

TEST_F(Checkpoint, RunStateRoundTripsBitForBit) {
  Snapshot snapshot = weights.snapshot(7);
  RunState& saved = snapshot.run;
  saved = {.step = 7,
           .epoch = 3,
           .cursor = 59'904,
           .skipped = 2,
           .skipped_in_a_row = 1,
           .evaluation_due = true,
           .samples = int64_t{1} << 60,
           .train_seconds = 0.1 + 0.2,
           .accuracy = 1.0 / 3,
           .best_accuracy = std::numeric_limits<double>::quiet_NaN(),
           .best_epoch = 2,
           .bn_stats_samples = 12'800,
           .affects_results = {{"lr", "0.1"}, {"quote\"", "line\n"}},
           .affects_rounding = {{"ranks", "3"}},
           .autotune = {{"2.forward", ""}}};
  const RunState read = read_run_state(write_checkpoint(folder, snapshot.view(), weights.tensors(), false));
  EXPECT_EQ(read.step, saved.step);
  EXPECT_EQ(read.epoch, saved.epoch);
  EXPECT_EQ(read.cursor, saved.cursor);
  EXPECT_EQ(read.skipped, saved.skipped);
  EXPECT_EQ(read.skipped_in_a_row, saved.skipped_in_a_row);
  EXPECT_EQ(read.evaluation_due, saved.evaluation_due);
  EXPECT_EQ(read.samples, saved.samples);
  EXPECT_EQ(read.train_seconds, saved.train_seconds);
  EXPECT_EQ(read.accuracy, saved.accuracy);
  EXPECT_TRUE(std::isnan(read.best_accuracy));
  EXPECT_EQ(read.best_epoch, saved.best_epoch);
  EXPECT_EQ(read.bn_stats_samples, saved.bn_stats_samples);
  EXPECT_EQ(read.affects_results, saved.affects_results);
  EXPECT_EQ(read.affects_rounding, saved.affects_rounding);
  EXPECT_EQ(read.autotune, saved.autotune);
}

TEST_F(Checkpoint, RunStateHasThePicturesThatAreNoSamples) {
  RunState saved{.step = 7};
  saved.pictures = PicturesState{
      .training = {.left_out = {1, 5}, .broken = {{.picture = 2, .bytes = 9, .step = 3, .reason = "a \"b\""}}},
      .validation = {.left_out = {0}, .sizes = {{3, 8}, {6, 0}}},
      .excluded_in_epoch = 4};
  const std::string text = to_json(saved);
  const RunState read = run_state_from_json(text, "state.json");
  ASSERT_TRUE(read.pictures);
  EXPECT_EQ(read.pictures->training.left_out, saved.pictures->training.left_out);
  EXPECT_EQ(read.pictures->training.broken, saved.pictures->training.broken);
  EXPECT_EQ(read.pictures->validation.left_out, saved.pictures->validation.left_out);
  EXPECT_EQ(read.pictures->validation.sizes, saved.pictures->validation.sizes);
  EXPECT_EQ(read.pictures->excluded_in_epoch, 4);
  EXPECT_FALSE(run_state_from_json(to_json(RunState()), "state.json").pictures);
  std::string wrong = text;
  wrong.replace(wrong.find("\"bytes\": 9"), 10, "\"bytes\": -");
  EXPECT_THROW(run_state_from_json(wrong, "state.json"), Error);
  wrong = text;
  wrong.replace(wrong.find("\"broken\""), 8, "\"Broken\"");
  EXPECT_THROW(run_state_from_json(wrong, "state.json"), Error);
  const PartState wrong_parts[] = {{.left_out = {-5}},
                                   {.left_out = {1, 1}},
                                   {.left_out = {2, 1}},
                                   {.broken = {{.picture = -1}}},
                                   {.broken = {{.picture = 1}, {.picture = 1}}},
                                   {.broken = {{.picture = 1, .bytes = -1}}},
                                   {.broken = {{.picture = 1, .step = -1}}},
                                   {.sizes = {{-1, 5}}},
                                   {.sizes = {{1, -5}}}};
  for (const PartState& part : wrong_parts) {
    saved.pictures = PicturesState{.validation = part};
    expect_error(error_of([&] { run_state_from_json(to_json(saved), "state.json"); }), Exit::data,
                 "state.json: \"pictures\" has an invalid value");
  }
  saved.pictures = PicturesState{.excluded_in_epoch = -1};
  EXPECT_THROW(run_state_from_json(to_json(saved), "state.json"), Error);
}

TEST_F(Checkpoint, RunStateHasTheSharesOfTheRanks) {
  RunState saved{.step = 7};
  saved.balance = BalanceState{.shares = {171, 85}, .speeds = {200.0 / 3, 0.1 + 0.2}};
  const RunState read = run_state_from_json(to_json(saved), "state.json");
  ASSERT_TRUE(read.balance);
  EXPECT_EQ(read.balance->shares, saved.balance->shares);
  EXPECT_EQ(read.balance->speeds, saved.balance->speeds);
  EXPECT_FALSE(run_state_from_json(to_json(RunState()), "state.json").balance);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const BalanceState wrong[] = {{.shares = {256, 0}}, {.shares = {-1, 5}}, {.shares = {int64_t{1} << 41, 1}},
                                {.speeds = {1, nan}}, {.speeds = {1, 0}},  {.shares = {1, 1}, .speeds = {1, 1, 1}}};
  for (const BalanceState& one : wrong) {
    saved.balance = one;
    expect_error(error_of([&] { run_state_from_json(to_json(saved), "state.json"); }), Exit::data,
                 "state.json: \"balance\" has an invalid value");
  }
}

TEST_F(Checkpoint, RunStateHasThePlateauAndTheEarlyStop) {
  RunState saved{.step = 7};
  saved.plateau = PlateauState{.best = 0.1 + 0.2, .bad = 3, .cooldown = 2, .factor = 0.1 * 0.1};
  saved.early_stop = EarlyStopState{.best = 1.0 / 3, .best_epoch = 4, .bad = 5};
  const RunState read = run_state_from_json(to_json(saved), "state.json");
  EXPECT_EQ(to_json(read), to_json(saved));
  ASSERT_TRUE(read.plateau && read.early_stop);
  EXPECT_EQ(read.plateau->best, saved.plateau->best);
  EXPECT_EQ(read.plateau->factor, saved.plateau->factor);
  EXPECT_EQ(read.early_stop->bad, 5);
  EXPECT_EQ(to_json(saved).find("best_loss"), std::string::npos);
  RunState of_tokens = saved;
  of_tokens.best_loss = 0.1 + 0.2;
  of_tokens.early_stop->best_loss = 1.0 / 3;
  const RunState tokens = run_state_from_json(to_json(of_tokens), "state.json");
  EXPECT_EQ(tokens.best_loss, of_tokens.best_loss);
  EXPECT_EQ(tokens.early_stop->best_loss, of_tokens.early_stop->best_loss);
  of_tokens.early_stop->best_loss = -1;
  expect_error(error_of([&] { run_state_from_json(to_json(of_tokens), "state.json"); }), Exit::data,
               "state.json: \"early_stop\" has an invalid value");
  of_tokens.best_loss = std::nan("");
  expect_error(error_of([&] { run_state_from_json(to_json(of_tokens), "state.json"); }), Exit::data,
               "state.json: \"best_loss\" has an invalid value");
  saved.plateau = PlateauState{};  // without a best figure yet
  EXPECT_TRUE(std::isnan(run_state_from_json(to_json(saved), "state.json").plateau->best));
  const std::string none = to_json(RunState());
  EXPECT_EQ(none.find("plateau"), none.npos);
  EXPECT_EQ(none.find("early_stop"), none.npos);
  for (const PlateauState& wrong : {PlateauState{.bad = -1}, PlateauState{.factor = -0.5}, PlateauState{.factor = 2},
                                    PlateauState{.factor = std::nan("")}}) {
    saved.plateau = wrong;
    expect_error(error_of([&] { run_state_from_json(to_json(saved), "state.json"); }), Exit::data,
                 "state.json: \"plateau\" has an invalid value");
  }
}

TEST_F(Checkpoint, RunStateOfFormat1IsRead) {
  RunState saved{.step = 7, .best_accuracy = 0.25};
  saved.affects_results = {{"--lr", "0.1"}};
  saved.affects_rounding = {{"world size", "3"}};
  saved.autotune = {{"ops", "1 2"}};
  std::string text = to_json(saved);
  for (const auto& [now, before] : {std::pair("\"format\": 2", "\"format\": 1"),
                                    {"affects_results", "mathematics"},
                                    {"affects_rounding", "bits"},
                                    {"autotune", "choices"}}) {
    ASSERT_NE(text.find(now), std::string::npos) << now;
    text.replace(text.find(now), std::string(now).size(), before);
  }
  EXPECT_EQ(to_json(run_state_from_json(text, "state.json")), to_json(saved));
}

TEST_F(Checkpoint, RunStateOfOlderProgramsHasFewerKeys) {
  const RunState saved{.step = 7, .best_accuracy = 0.25};
  std::string text = to_json(saved);
  for (const std::string line : {"  \"best_epoch\": 0,\n", "  \"bn_stats_samples\": 0,\n"}) {
    ASSERT_NE(text.find(line), std::string::npos) << text;
    text.erase(text.find(line), line.size());
  }
  EXPECT_EQ(to_json(run_state_from_json(text, "state.json")), to_json(saved));
}

TEST_F(Checkpoint, LinksPointToTheLatestAndTheBest) {
  write(1, true);
  write(2);
  EXPECT_EQ(fs::read_symlink(folder / "latest"), "step-00000002");
  EXPECT_EQ(fs::read_symlink(folder / "best"), "step-00000001");
  write(3, true);
  EXPECT_EQ(fs::read_symlink(folder / "best"), "step-00000003");
  EXPECT_EQ(names(), (Names{"best", "latest", "step-00000001", "step-00000002", "step-00000003"}));
}

TEST_F(Checkpoint, SaveOfTheSameStepReplacesTheOldOne) {
  write(5);
  put(folder / "step-00000005" / "notes.txt", "of the first");
  Snapshot second = weights.snapshot(9);
  second.run.step = 5;
  EXPECT_EQ(read(write_checkpoint(folder, second.view(), weights.tensors(), false)).model.weights,
            second.model.weights);
  EXPECT_FALSE(fs::exists(folder / "step-00000005" / "notes.txt"));
  EXPECT_EQ(names(), (Names{"latest", "step-00000005"}));
}

TEST_F(Checkpoint, FailureAtAnyFileLeavesOnlyTheOldCheckpoint) {
  const fs::path old = write(1);
  for (const char* at : {"model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"}) {
    bool called = false;
    const auto no_room = [&](const fs::path& path) {
      EXPECT_EQ(path.parent_path().parent_path(), folder);
      EXPECT_EQ(path.parent_path().filename().string().rfind(".step-00000002.tmp-", 0), 0u) << path;
      EXPECT_FALSE(fs::exists(path));
      if (path.filename() != at) return;
      called = true;
      throw std::runtime_error("no room for " + path.filename().string());
    };
    expect_error(
        error_of([&] { write_checkpoint(folder, weights.snapshot(2).view(), weights.tensors(), true, no_room); }),
        Exit::output, std::string("no room for ") + at);
    EXPECT_TRUE(called);
    EXPECT_EQ(names(), (Names{"latest", "step-00000001"}));
    EXPECT_EQ(read(folder / "latest").model.weights, weights.snapshot(1).model.weights);
  }
}

TEST_F(Checkpoint, CrashDuringAWriteKeepsTheOldCheckpoint) {
  write(1);
  for (const char* at : {"model.safetensors", "manifest.json"}) {
    const auto die = [&](const fs::path& path) {
      if (path.filename() == at) ::raise(SIGKILL);
    };
    EXPECT_EXIT(write_checkpoint(folder, weights.snapshot(1).view(), weights.tensors(), true, die),
                ::testing::KilledBySignal(SIGKILL), "");
    EXPECT_EQ(names().size(), 3u);  // "latest", step 1, and the incomplete checkpoint
    EXPECT_EQ(list_checkpoints(folder), std::vector<fs::path>{folder / "step-00000001"});
    read_run_state(folder / "latest");
    remove_leftovers(folder);
    write(1);
    EXPECT_EQ(names(), (Names{"latest", "step-00000001"}));
  }
}

TEST_F(Checkpoint, FullDiskIsReported) {
  write(1);
  const Weights lenet = weights_of("lenet", 1);
  const auto with_little_room = [&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100'000, 100'000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(1);
    try {
      write_checkpoint(folder, lenet.snapshot(2).view(), lenet.tensors(), false);
    } catch (const Error& e) {
      if (::write(STDERR_FILENO, e.what(), std::strlen(e.what())) < 0) ::_exit(2);
      ::_exit(static_cast<int>(e.code()));
    }
    ::_exit(0);
  };
  EXPECT_EXIT(with_little_room(), ::testing::ExitedWithCode(static_cast<int>(Exit::output)),
              "model.safetensors.*File too large; make room");
  EXPECT_EQ(names(), (Names{"latest", "step-00000001"}));
}

TEST_F(Checkpoint, FolderThatCannotBeCreatedIsReported) {
  put(folder, "a file");
  expect_error(error_of([&] { write(1); }), Exit::output, folder.string());
}

TEST_F(Checkpoint, PruningKeepsTheNewestAndTheLinkedCheckpoints) {
  for (const int64_t step : {1, 2, 100'000'000, 30, 4}) write(step, step == 2);
  const fs::path half = folder / temporary_name("step-00000009");
  for (const fs::path& left : {half, fs::path(half.string() + "-old")}) {
    fs::create_directory(left);
    put(left / "model.safetensors", "half");
  }
  fs::create_symlink("step-00000009", folder / temporary_name("latest"));
  put(folder / "step-by-step.txt", "a note");
  put(folder / ".draft.tmp-old", "a note");
  remove_leftovers(folder);
  prune_checkpoints(folder, 0);
  EXPECT_EQ(names().size(), 2u + 5 + 2);
  prune_checkpoints(folder, 1);
  EXPECT_EQ(names(), (Names{".draft.tmp-old", "best", "latest", "step-00000002", "step-00000004", "step-100000000",
                            "step-by-step.txt"}));
  read_run_state(folder / "latest");
  read_run_state(folder / "best");
  prune_checkpoints(run / "nowhere", 1);
}

}  // namespace
}  // namespace ddp
