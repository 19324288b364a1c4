#include "app/commands/doctor/measure.h"
#include "tests/app/commands/doctor/fakes.h"
#include "tests/temp_folder.h"

#include <filesystem>
#include <fstream>

namespace ddp::doctor {
namespace {

namespace fs = std::filesystem;

class DoctorOutput : public ::testing::Test {
 protected:
  const TempFolder folder_;
  const fs::path path_ = folder_.path();
};

TEST_F(DoctorOutput, LeavesNoFiles) {
  const OutputTrial trial = try_output(path_ / "a" / "b");
  EXPECT_EQ(trial.error, "");
  EXPECT_GT(trial.bytes_per_second, 0);
  EXPECT_GT(trial.free, 0);
  EXPECT_TRUE(fs::is_empty(path_));
  fs::create_directory(path_ / "a");
  std::ofstream(path_ / "a" / "mine") << "x";
  EXPECT_EQ(try_output(path_ / "a").error, "");
  EXPECT_EQ(std::distance(fs::directory_iterator(path_ / "a"), {}), 1);
}

TEST_F(DoctorOutput, NamesAnUnwritableFolder) {
  std::ofstream(path_ / "file") << "x";
  const OutputTrial trial = try_output(path_ / "file" / "run");
  expect_only(check_output(trial), Verdict::fault, {(path_ / "file").string()}, "ddp_train --output-dir FOLDER",
              Exit::output);
}

TEST(DoctorOutputCheck, WarnsOfASlowOrFullDisk) {
  const int64_t plenty = int64_t{100} << 30;
  expect_fine(check_output({"runs", "", 100e6, plenty}));
  expect_only(check_output({"runs", "", 5e6, plenty}), Verdict::warning, {"runs writes 5.0 MB/s"},
              "ddp_train --save-every 10min");
  expect_only(check_output({"runs", "", 100e6, 500 << 20}), Verdict::warning, {"0.49 GiB free"},
              "ddp_train --keep-last 1");
}

}  // namespace
}  // namespace ddp::doctor
