#include "telemetry/terminal.h"

#include "telemetry/progress_rate.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

TEST(Terminal, WithoutASizeHasColumnsOrEighty) {
  EXPECT_EQ(columns_of_terminal(57, "100"), 57);
  EXPECT_EQ(columns_of_terminal(0, "100"), 100);
  for (const char* unusable : {static_cast<const char*>(nullptr), "", "wide", "-5", "0"})
    EXPECT_EQ(columns_of_terminal(0, unusable), 80);
  EXPECT_EQ(columns_of_terminal(0, "2000000000"), 10'000);
}

TEST(Terminal, DumbOnesDrawNothing) {
  EXPECT_TRUE(can_draw("xterm-256color"));
  EXPECT_FALSE(can_draw("dumb"));
  EXPECT_FALSE(can_draw(""));
  EXPECT_FALSE(can_draw(nullptr));
}

TEST(Terminal, NoColorHasAnyValueButTheEmptyOne) {
  EXPECT_TRUE(has_colour("xterm", nullptr));
  EXPECT_TRUE(has_colour("xterm", ""));
  EXPECT_FALSE(has_colour("xterm", "1"));
  EXPECT_FALSE(has_colour("xterm", "0"));
  EXPECT_FALSE(has_colour("dumb", nullptr));
}

TEST(ProgressRate, IsTheMeanThatForgets) {
  ProgressRate rate;
  EXPECT_TRUE(std::isnan(rate.samples_per_second()));
  EXPECT_TRUE(std::isnan(rate.seconds_of(5)));
  for (int i = 0; i < 20; ++i) rate.add(10, 160, 0.5);
  EXPECT_NEAR(rate.samples_per_second(), 320, 1e-9);
  EXPECT_NEAR(rate.seconds_of(40), 2, 1e-9);
  rate.add(10, 160, 1);  // a slower window moves it a little
  EXPECT_GT(rate.seconds_of(40), 2.05);
  EXPECT_LT(rate.seconds_of(40), 2.4);
  for (int i = 0; i < 60; ++i) rate.add(10, 160, 1);
  EXPECT_NEAR(rate.seconds_of(40), 4, 0.1);
}

}  // namespace
}  // namespace ddp
