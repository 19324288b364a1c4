#include "telemetry/status_text.h"

#include "telemetry/columns.h"
#include "tests/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace ddp {
namespace {

RunStatus two_ranks() {
  return {.host = "node1",
          .pid = 7,
          .written = 100,
          .progress = {.epoch = 2, .epochs = 3, .step = 3, .steps = 10, .loss = 0.5},
          .step = 13,
          .steps = 30,
          .accuracy = 0.75,
          .ranks = {{.rank = 0, .host = "node1", .phase = "computing", .step = 14, .silent_seconds = 0.04},
                    {.rank = 1, .host = "結節二", .phase = "in the data loader", .step = 13, .silent_seconds = -1}}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(std::regex_replace(line, std::regex("\033\\[[0-9]*m"), ""));
  return lines;
}

TEST(StatusText, HasTheBarAndAllRanks) {
  EXPECT_EQ(status_text(two_ranks(), {}, {}, false),
            "epoch 2/3  [#########.....................]   3/10  loss 0.5000\n"
            "rank  host    phase               step  silent\n"
            "   0  node1   computing             14   0.0 s\n"
            "   1  結節二  in the data loader    13   never\n"
            "step 13 of 30, test acc 0.7500\n");
}

TEST(StatusText, HasTheLossOfTokens) {
  RunStatus status = two_ranks();
  status.progress.samples_per_second = 12.25;
  status.progress.sequence_length = 256;
  status.test_loss = std::log(30.5);
  const std::string text = status_text(status, {}, {120, 24}, false);
  EXPECT_HAS(text, "  12 samples/s  3136 tokens/s");
  EXPECT_HAS(text, "\nstep 13 of 30, test loss 3.4177, perplexity 30.5\n");
}

TEST(StatusText, FitsEveryTerminal) {
  RunStatus many = two_ranks();
  for (int rank = 2; rank < 50; ++rank) many.ranks.push_back({.rank = rank, .host = "n", .phase = "computing"});
  for (const RunStatus& status : {two_ranks(), many})
    for (int columns = 1; columns <= 200; columns += columns < 60 ? 1 : 20)
      for (const int rows : {1, 5, 24}) {
        const std::string text = status_text(status, {.age = 90, .died = true}, {columns, rows}, true);
        const auto lines = lines_of(text);
        EXPECT_LT(std::ssize(lines), std::max(rows, 3)) << text;
        for (const std::string& line : lines) EXPECT_LT(columns_of_text(line), std::max(columns, 2)) << line;
      }
}

// A number that lost its end would be another number.
TEST(StatusText, CutsNoStep) {
  RunStatus status = two_ranks();
  status.ranks[0].step = status.ranks[1].step = 12345;
  int with_step = 0;
  for (int columns = 20; columns <= 100; ++columns) {
    const auto lines = lines_of(status_text(status, {}, {columns, 24}, false));
    for (const std::string& line : {lines.at(2), lines.at(3)}) {
      const bool whole = line.find("12345") != line.npos;
      with_step += whole ? 1 : 0;
      EXPECT_TRUE(whole || line.find("12") == line.npos) << line;
    }
  }
  EXPECT_GT(with_step, 100);
}

TEST(StatusText, SaysHowARunHasEnded) {
  RunStatus status = two_ranks();
  const auto last = [&](const Sight& sight) { return lines_of(status_text(status, sight, {}, false)).back(); };
  EXPECT_EQ(last({.age = 90}), "last sign of life 1:30 ago, step 13 of 30, test acc 0.7500");
  EXPECT_EQ(last({.age = 9, .died = true}),
            "the run has died: last sign of life 9.0 s ago, step 13 of 30, test acc 0.7500");
  status.state = RunStatus::State::done;
  EXPECT_EQ(last({.age = 1e6}), "the run has ended: step 13 of 30, test acc 0.7500");
  status.state = RunStatus::State::stopped;
  EXPECT_EQ(last({}), "the run was stopped, --resume continues it: step 13 of 30, test acc 0.7500");
  status.state = RunStatus::State::failed;
  status.accuracy = {};
  EXPECT_EQ(last({}), "the run has failed: step 13 of 30");
}

TEST(StatusText, EscapesWhatStrangersWrote) {
  RunStatus status = two_ranks();
  status.ranks[0].host = "\033]0;title\a\r\n" + std::string(5000, 'x');
  status.ranks[0].phase = "\u202e\xff";
  const std::string text = status_text(status, {}, {.columns = 120, .rows = 24}, false);
  EXPECT_TRUE(std::ranges::none_of(text, [](char c) { return (c >= 0 && c < ' ' && c != '\n') || c == 0x7f; })) << text;
  EXPECT_HAS(text, "\\x1B]0;title");
  EXPECT_EQ(lines_of(text).size(), 5U);
}

TEST(Columns, CutsWholeCharacters) {
  EXPECT_EQ(columns_of_text("a\u00e9結e\u0301"), 5);
  EXPECT_EQ(cut("結節", 3), "結");
  EXPECT_EQ(cut("結節", 4), "結節");
  EXPECT_EQ(cut("ae\u0301b", 2), "ae\u0301");
  EXPECT_EQ(cut("abc", 0), "");
  EXPECT_EQ(padded("結節", 3), "結 ");
  EXPECT_EQ(padded("é", 3), "é  ");
}

}  // namespace
}  // namespace ddp
