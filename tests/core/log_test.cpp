#include "core/log.h"

#include <gtest/gtest.h>

#include <string>

namespace ddp {
namespace {

struct Output {
  std::string out, err;
};

Output output_of(int rank) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const Log log(rank);
  log.info("epoch {}", 3);
  log.warn("{} samples", 7);
  std::string err = ::testing::internal::GetCapturedStderr();
  return {::testing::internal::GetCapturedStdout(), err};
}

TEST(Log, RankZeroPrintsAndWarnsWithoutPrefix) {
  const Output output = output_of(0);
  EXPECT_EQ(output.out, "epoch 3\n");
  EXPECT_EQ(output.err, "warning: 7 samples\n");
}

TEST(Log, OtherRanksOnlyWarnWithTheirRank) {
  const Output output = output_of(3);
  EXPECT_EQ(output.out, "");
  EXPECT_EQ(output.err, "[rank 3] warning: 7 samples\n");
}

// What a terminal gets.
TEST(Log, TheStatusStaysBelowTheText) {
  ::testing::internal::CaptureStdout();
  draw_status([] { return "half"; });
  write_text(stdout, "line\n");
  draw_status([] { return "whole"; });
  draw_status(nullptr);
  draw_status(nullptr);
  write_text(stdout, "end\n");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(),
            "\r\033[Jhalf\r"
            "\r\033[Jline\nhalf\r"
            "\r\033[Jwhole\r"
            "\r\033[Jend\n");
}

TEST(Log, ErrorsClearTheStatus) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  draw_status([] { return "half"; });
  Log(0).warn("slow");
  draw_status(nullptr);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "warning: slow\n");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "\r\033[Jhalf\r\r\033[Jhalf\r\r\033[J");
}

}  // namespace
}  // namespace ddp
