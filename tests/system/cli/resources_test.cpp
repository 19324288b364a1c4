// A host without the usual means: few open files, no locked memory, no home, no folder for temporary files, a name that
// is no UTF-8, results that cannot be written, and a wall clock that somebody sets. error_path_test.cpp has threads,
// memory and the size of files.
#include "core/error.h"
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/run_folder.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <string>

namespace ddp::testing {
namespace {

namespace fs = std::filesystem;

class Resources : public ::testing::Test {
 protected:
  // The program on `ranks` ranks, after a command of each rank's shell; 0: without mpirun.
  Outcome run(int ranks, const std::string& before, const std::string& more) const {
    return shell(
        fmt::format("{} CUDA_VISIBLE_DEVICES= timeout -k 5 400 {} sh -c '{}; exec {} --model mlp --data-path {} "
                    "--batch-size 20 --threads 1 --eval-every 0 --print-freq 0 {}'",
                    environment_, ranks == 0 ? "" : fmt::format("{} -np {}", DDP_MPIRUN, ranks), before, DDP_PROGRAM,
                    (folder_ / "data").string(), more));
  }
  std::string into_run(const std::string& more) const { return fmt::format("{} --output-dir {}", more, run_.string()); }

  std::string environment_;  // of mpirun and its ranks
  const TempFolder folder_;
  const fs::path run_ = folder_ / "run";
};

// Only the ranks have the limit: mpirun itself would hang.
TEST_F(Resources, FewOpenFiles) {
  for (const char* name : {"train/a", "train/b", "val/a", "val/b"}) {
    fs::create_directories(folder_ / "data" / name);
    for (int i = 0; i < 20; ++i)
      fs::copy_file(fs::path(DDP_PICTURES) / "arithmetic.jpg", folder_ / "data" / name / fmt::format("{}.jpg", i));
  }
  const std::string pictures = into_run("--workers 2 --max-steps 2");
  for (const int ranks : {0, 2}) {
    const Outcome few = run(ranks, "ulimit -n 20", pictures);
    EXPECT_EQ(few.code, static_cast<int>(Exit::device)) << few.output;
    EXPECT_EQ(count(few.output, "error: this process may open 20 files"), 1) << few.output;
    EXPECT_EQ(count(few.output, "ulimit -n"), 1) << few.output;
    EXPECT_FALSE(fs::exists(run_));
  }
  const Outcome enough = run(2, "ulimit -n 64", pictures);
  EXPECT_EQ(enough.code, 0) << enough.output;
}

TEST_F(Resources, NoHomeAndNoLockedMemory) {
  few_images(folder_ / "data", 200, 100);
  environment_ = fmt::format("HOME=/proc/none TMPDIR={}", (folder_ / "missing").string());  // mpirun makes TMPDIR
  const Outcome first = run(2, "ulimit -l 0; umask 077", into_run("--max-steps 2"));
  ASSERT_EQ(first.code, 0) << first.output;
  for (const auto& entry : fs::recursive_directory_iterator(run_)) {
    const fs::perms others = fs::perms::group_all | fs::perms::others_all;
    EXPECT_TRUE(entry.is_symlink() || (entry.status().permissions() & others) == fs::perms::none) << entry.path();
  }

  const fs::path temporary = folder_ / std::string(150, 't');  // the path of a socket has at most 107 bytes
  fs::create_directory(temporary);
  environment_ = fmt::format("env -u HOME TMPDIR={}", temporary.string());
  const Outcome resumed = run(2, "umask 077", fmt::format("--max-steps 4 --resume {}", run_.string()));
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_EQ(count(resumed.output, "at step 2"), 1) << resumed.output;
}

TEST_F(Resources, OutputFolderIsNotUtf8) {
  few_images(folder_ / "data", 200, 100);
  const fs::path path = folder_ / "not-utf8-\xff";
  const std::string steps =
      fmt::format("--save-every 1steps --resume auto --output-dir {} --max-steps ", path.string());
  for (const int last : {2, 3}) {
    const Outcome outcome = run(0, "true", steps + fmt::format("{}", last));
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_TRUE(fs::exists(path / "summary.json"));
    EXPECT_EQ(std::ssize(events(path, "save")), last);
  }
  const Outcome shown = shell(fmt::format("{} inspect {}", DDP_PROGRAM, path.string()));
  EXPECT_EQ(shown.code, 0);
  EXPECT_EQ(count(shown.output, "not-utf8-\\xFF/checkpoints/step-00000003: complete"), 1) << shown.output;
}

// The other rank ends no sooner than rank 0 has written.
TEST_F(Resources, ResultsCannotBeWritten) {
  few_images(folder_ / "data", 200, 100);
  const Outcome first = run(0, "true", into_run("--max-steps 2"));
  ASSERT_EQ(first.code, 0) << first.output;
  fs::remove(run_ / "summary.json");
  fs::create_directory(run_ / "summary.json");
  const Outcome outcome = run(2, "true", fmt::format("--max-steps 4 --resume {}", run_.string()));
  EXPECT_EQ(outcome.code, static_cast<int>(Exit::output)) << outcome.output;
  EXPECT_EQ(count(outcome.output, "error: rank 0: cannot rename"), 1) << outcome.output;
}

// All times are of the steady clock.
TEST_F(Resources, WallClockIsSet) {
  few_images(folder_ / "data", 200, 100);
  environment_ = fmt::format("LD_PRELOAD={}", DDP_FAILING_CLOCK);
  const Outcome outcome =
      run(2, "true", into_run("--max-steps 20 --inject rank=all,kind=slow --save-every 1s --step-timeout 60"));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  int saves = 0;
  std::ifstream metrics(run_ / "metrics.jsonl");
  for (std::string line; std::getline(metrics, line);) {
    const auto event = nlohmann::json::parse(line);
    saves += event["event"] == "save" ? 1 : 0;
    for (const char* time : {"seconds", "data_ms", "compute_ms", "exposed_comm_ms"}) {
      const double value = event.value(time, 0.0);
      EXPECT_TRUE(value >= 0 && value < 1e6) << line;
    }
  }
  const auto summary = nlohmann::json::parse(read_file(run_ / "summary.json"));
  EXPECT_TRUE(summary["sec_per_epoch"] > 1 && summary["sec_per_epoch"] < 1000) << summary;
  EXPECT_GE(saves, 3);  // after the second and the third second, and at the end
}

}  // namespace
}  // namespace ddp::testing
