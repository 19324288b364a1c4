#include "telemetry/status_file.h"
#include "tests/heap.h"
#include "tests/temp_folder.h"

#include <gtest/gtest.h>

#include <string>

namespace ddp {
namespace {

TEST(StatusFileStep, AllocatesNothing) {
  const TempFolder folder;
  StatusFile file({.folder = folder.path(),
                   .host = "here",
                   .require_in_place = [] {},
                   .ranks = [] { return std::vector<RankStatus>{}; },
                   .epochs = 2,
                   .steps_per_epoch = 5,
                   .total_steps = 10});
  StepResult result;
  result.step = result.epoch = 1;
  const int64_t before = testing::allocations();
  file.step(result);
  EXPECT_EQ(testing::allocations(), before);
  { const std::string detected(100, 'x'); }
  EXPECT_GT(testing::allocations(), before);
}

}  // namespace
}  // namespace ddp
