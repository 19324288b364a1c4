#include "telemetry/progress_bar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <regex>
#include <string>
#include <vector>

namespace ddp {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

Progress in_the_middle() {
  return {.epoch = 2,
          .epochs = 3,
          .step = 120,
          .steps = 240,
          .loss = 0.43211,
          .samples_per_second = 1234.4,
          .seconds_left = 42.2,
          .parts = {.data = 0.3, .compute = 9, .exposed_comm = 0.7}};
}

std::string without_colours(const std::string& line) {
  return std::regex_replace(line, std::regex("\033\\[[0-9]*m"), "");
}

// The fields of a line, by what each has.
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> found;
  for (const char* field : {"120/240", "50%", " left", "loss ", "samples/s", "[#", "epoch", "compute"})
    if (line.find(field) != std::string::npos) found.emplace_back(field);
  return found;
}

TEST(ProgressBar, HasAllFieldsWhereThereIsRoom) {
  EXPECT_EQ(progress_bar(in_the_middle(), 104, false),
            "epoch 2/3  [######......]  120/240  loss 0.4321  1234 samples/s  0:42 left  data 3% compute 90% comm 7%");
}

TEST(ProgressBar, ShowsTokensBeforeSamplesWhereRoomIsShort) {
  Progress tokens = in_the_middle();
  tokens.sequence_length = 256;
  tokens.samples_per_second = 12.25;
  EXPECT_EQ(
      progress_bar(tokens, 120, false),
      "epoch 2/3  [#######........]  120/240  loss 0.4321  12 samples/s  3136 tokens/s  0:42 left  data 3% compute "
      "90% comm 7%");
  EXPECT_EQ(progress_bar(tokens, 52, false), "120/240  loss 0.4321  3136 tokens/s  0:42 left");
}

TEST(ProgressBar, IsNarrowerThanTheTerminal) {
  Progress early = in_the_middle(), huge = in_the_middle();
  huge.sequence_length = std::numeric_limits<int64_t>::max();
  early.samples_per_second = early.seconds_left = early.loss = kUnknown;
  huge.step = huge.steps = huge.epoch = huge.epochs = std::numeric_limits<int64_t>::max();
  huge.loss = huge.samples_per_second = huge.seconds_left = std::numeric_limits<double>::max();
  for (const Progress& progress : {in_the_middle(), early, huge, Progress{}})
    for (int width = -1; width <= 200; width += width < 120 ? 1 : 20)
      for (const bool colour : {false, true}) {
        const std::string line = without_colours(progress_bar(progress, width, colour));
        EXPECT_LT(static_cast<int>(line.size()), std::max(width, 1)) << line;
        EXPECT_TRUE(std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; })) << line;
      }
}

// A wider terminal keeps the fields of a narrower one: fields come in the order of their importance.
TEST(ProgressBar, DropsTheLeastImportantFieldsFirst) {
  const std::vector<std::string> all{"120/240", " left", "loss ", "samples/s", "[#", "epoch", "compute"};
  size_t most = 0;
  for (int width = 9; width <= 200; ++width) {
    const auto fields = fields_of(progress_bar(in_the_middle(), width, false));
    ASSERT_GE(fields.size(), std::max<size_t>(most, 1)) << width;
    EXPECT_TRUE(std::ranges::equal(fields, std::vector(all.begin(), all.begin() + std::ssize(fields)))) << width;
    most = fields.size();
  }
  EXPECT_EQ(most, all.size());
}

TEST(ProgressBar, ANarrowTerminalHasTheShareOfTheEpoch) {
  EXPECT_EQ(progress_bar(in_the_middle(), 8, true), "120/240");
  EXPECT_EQ(progress_bar(in_the_middle(), 7, true), "50%");
  EXPECT_EQ(progress_bar(in_the_middle(), 4, true), "50%");
  EXPECT_EQ(progress_bar(in_the_middle(), 3, true), "");
  EXPECT_EQ(progress_bar(in_the_middle(), 10, true), "120/240");
}

TEST(ProgressBar, ColoursAreTheOnlyDifference) {
  const std::string plain = progress_bar(in_the_middle(), 100, false),
                    coloured = progress_bar(in_the_middle(), 100, true);
  EXPECT_EQ(plain.find('\033'), std::string::npos);
  EXPECT_NE(coloured, plain);
  EXPECT_EQ(without_colours(coloured), plain);
}

TEST(ProgressBar, ShowsNothingThatIsNotKnown) {
  const std::string line = progress_bar({.epoch = 1, .epochs = 1, .step = 1, .steps = 4, .loss = 2.5}, 100, false);
  EXPECT_EQ(line, "epoch 1/1  [#######.......................]  1/4  loss 2.5000");
}

TEST(DurationText, HasTheTwoLargestUnits) {
  EXPECT_EQ(duration_text(0), "0:00");
  EXPECT_EQ(duration_text(59.6), "1:00");
  EXPECT_EQ(duration_text(3599), "59:59");
  EXPECT_EQ(duration_text(3661), "1:01:01");
  EXPECT_EQ(duration_text(3 * 86400 + 4 * 3600 + 5 * 60 + 59), "3d 04:05");
  EXPECT_EQ(duration_text(1e300), "9999d 00:00");
  EXPECT_EQ(duration_text(kUnknown), "");
  EXPECT_EQ(duration_text(-1), "");
}

}  // namespace
}  // namespace ddp
