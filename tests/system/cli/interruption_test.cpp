// A run that is killed, resumed, stopped by a signal and resumed again ends with the bytes of an undisturbed run. The
// address sanitizer judges it too.
#include "core/error.h"
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/job.h"

namespace ddp::testing {
namespace {

TEST(Interruption, AfterAKillAndAStopEndsWithTheSameBytes) {
  const TempFolder folder;
  few_images(folder / "images", 336, 10);
  const auto options = [&](const char* name, const std::string& more) {
    return fmt::format(
        "--data-path {} --batch-size 16 --momentum 0.9 --max-steps 24 --eval-every 0 --print-freq 1 --output-dir {} {}",
        (folder / "images").string(), (folder / name).string(), more);
  };
  const Outcome whole = program(2, options("whole", "--save-every never"));
  ASSERT_EQ(whole.code, 0) << whole.output;

  const std::string saves = "--save-every 4steps --resume auto ";
  const Outcome killed = program(2, options("cut", saves + "--inject kind=kill,rank=1,step=10"));
  EXPECT_TRUE(was_killed(killed.code)) << killed.code << "\n" << killed.output;
  {
    Job job(folder, 2, options("cut", saves + "--inject rank=all,kind=slow"));
    ASSERT_TRUE(job.says("step 10/21"));
    ::kill(job.rank(1), SIGTERM);
    EXPECT_EQ(job.end(), static_cast<int>(Exit::stopped)) << job.output();
    EXPECT_EQ(count(job.output(), "stopped by SIGTERM at rank 1 at step "), 1) << job.output();
    EXPECT_TRUE(job.is_gone());
  }
  // A profile that cannot be written does not fail the run.
  std::filesystem::remove(folder / "cut" / "profile.json");
  std::filesystem::create_directories(folder / "cut" / "profile.json" / "in the way");
  const Outcome resumed = program(2, options("cut", saves));
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_EQ(count(resumed.output, "warning: the profile of the run is not written: "), 1) << resumed.output;
  EXPECT_TRUE(read_file(folder / "cut" / "model.safetensors") == read_file(folder / "whole" / "model.safetensors"));
}

}  // namespace
}  // namespace ddp::testing
