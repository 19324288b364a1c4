#include "tests/checkpoint/fixture.h"

namespace ddp {
namespace {

class FindCheckpoint : public CheckpointFolder {
 protected:
  FindCheckpoint() {
    for (const int64_t step : {1, 2, 3, 4}) write(step, step == 2);
  }
  fs::path at(int64_t step) const { return folder / ("step-0000000" + std::to_string(step)); }
  void truncate(int64_t step) const { fs::resize_file(at(step) / "model.safetensors", 40); }

  // Returns the step of the checkpoint that is found. Expects `broken` messages about skipped checkpoints.
  int64_t find(const fs::path& wanted, size_t broken) {
    skipped.clear();
    const auto found = find_checkpoint(wanted, skipped);
    EXPECT_EQ(skipped.size(), broken) << wanted;
    if (!found) return -1;
    EXPECT_EQ(found->run_folder, run);
    EXPECT_EQ(found->path.parent_path(), folder);
    return read_run_state(found->path).step;
  }

  std::vector<std::string> skipped;
};

TEST_F(FindCheckpoint, FindsByRunFolderNameOrLink) {
  EXPECT_EQ(find(run, 0), 4);
  EXPECT_EQ(find(folder, 0), 4);
  EXPECT_EQ(find(run.string() + "/", 0), 4);
  EXPECT_EQ(find(at(3), 0), 3);
  EXPECT_EQ(find(at(3).string() + "/", 0), 3);
  EXPECT_EQ(find(folder / "best", 0), 2);
  EXPECT_EQ(find(folder / "latest", 0), 4);
  fs::create_symlink(run, run / "again");
  EXPECT_EQ(find(run / "again", 0), 4);
}

TEST_F(FindCheckpoint, SkipsBrokenCheckpointsWithAReason) {
  truncate(4);
  fs::remove(at(3) / "optimizer.safetensors");
  fs::remove_all(at(2));
  put(at(2), "a file");
  EXPECT_EQ(find(run, 3), 1);
  const std::vector<fs::path> files = {at(4) / "model.safetensors", at(3) / "optimizer.safetensors", at(2)};
  const std::vector<std::string> reasons = {"truncated", ": cannot read it: No such file", " is a file"};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(skipped[i].rfind(files[i].string(), 0), 0u) << skipped[i];
    EXPECT_NE(skipped[i].find(reasons[i]), std::string::npos) << skipped[i];
  }
  EXPECT_EQ(find(at(3), 2), 1);  // skips newer checkpoints
  EXPECT_EQ(find(folder / "latest", 3), 1);
}

TEST_F(FindCheckpoint, DanglingLinkMeansThePreviousCheckpoint) {
  fs::remove_all(at(4));
  EXPECT_EQ(find(folder / "latest", 1), 3);
  EXPECT_EQ(find((folder / "latest").string() + "/", 1), 3);
}

TEST_F(FindCheckpoint, NoValidCheckpointIsAnError) {
  for (const int64_t step : {1, 2, 3, 4}) truncate(step);
  for (const fs::path& wanted : {run, folder, at(4)}) {
    const Error error = error_of([&] { find_checkpoint(wanted, skipped); });
    expect_error(error, Exit::data, (at(4) / "model.safetensors").string());
    expect_error(error, Exit::data, (at(1) / "model.safetensors").string());
  }
}

TEST_F(FindCheckpoint, NoCheckpointAtAllIsNotAnError) {
  fs::create_directory(run / "empty");
  EXPECT_EQ(find(run / "empty", 0), -1);
  fs::create_directory(run / "empty" / "checkpoints");
  EXPECT_EQ(find(run / "empty", 0), -1);
}

TEST_F(FindCheckpoint, MissingPathOrFileIsAnError) {
  for (const fs::path& wanted : {run / "nowhere", folder / "step-00000009", run / "checkpoints" / "worst"})
    expect_error(error_of([&] { find_checkpoint(wanted, skipped); }), Exit::data, wanted.string());
  const fs::path file = at(1) / "model.safetensors";
  expect_error(error_of([&] { find_checkpoint(file, skipped); }), Exit::data, "--init-from");
}

TEST_F(FindCheckpoint, CopyElsewhereHasNoRunFolder) {
  for (const char* name : {"mine", "step-00000007"}) {
    const fs::path copy = run / name;
    fs::copy(at(3), copy);
    const auto found = find_checkpoint(copy, skipped);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->path, copy);
    EXPECT_EQ(found->run_folder, "");
    fs::resize_file(copy / "state.json", 3);
    expect_error(error_of([&] { find_checkpoint(copy, skipped); }), Exit::data, (copy / "state.json").string());
  }
}

}  // namespace
}  // namespace ddp
