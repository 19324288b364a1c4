#include "telemetry/run_status.h"

#include "core/error.h"
#include "tests/text.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace ddp {
namespace {

RunStatus some_status() {
  return {.state = RunStatus::State::stopped,
          .host = "node1",
          .pid = 7,
          .written = 1.5,
          .progress = {.epoch = 2,
                       .epochs = 3,
                       .step = 4,
                       .steps = 5,
                       .loss = 0.5,
                       .samples_per_second = 100,
                       .parts = {.data = 1, .compute = 2, .exposed_comm = 3}},
          .step = 9,
          .steps = 15,
          .accuracy = 0.25,
          .ranks = {{.rank = 1, .host = "node2", .phase = "saving", .step = 9, .silent_seconds = 0.5}}};
}

TEST(RunStatus, IsReadAsWritten) {
  const std::string json = status_json(some_status());
  const RunStatus status = parse_status(json, "status.json");
  EXPECT_EQ(status_json(status), json);
  EXPECT_EQ(status.state, RunStatus::State::stopped);
  EXPECT_EQ(status.pid, 7);
  EXPECT_EQ(status.progress.steps, 5);
  EXPECT_EQ(status.progress.loss, 0.5);
  EXPECT_TRUE(std::isnan(status.progress.seconds_left));
  EXPECT_EQ(status.progress.parts.exposed_comm, 3);
  EXPECT_EQ(status.accuracy, 0.25);
  ASSERT_EQ(status.ranks.size(), 1U);
  EXPECT_EQ(status.ranks[0].phase, "saving");
  EXPECT_EQ(status.ranks[0].silent_seconds, 0.5);
  EXPECT_EQ(json.find("tokens"), json.npos);

  RunStatus tokens = some_status();
  tokens.progress.sequence_length = 256;
  tokens.test_loss = 3.25;
  const RunStatus read = parse_status(status_json(tokens), "status.json");
  EXPECT_EQ(read.progress.tokens_per_second(), 25600);
  EXPECT_EQ(read.test_loss, 3.25);
}

TEST(RunStatus, ARankIsInItsPhaseUnlessItIsNot) {
  RankStatus rank{
      .rank = 1, .host = "b", .state = RankStatus::State::late, .phase = Phase::data, .silent_seconds = 0.5};
  EXPECT_EQ(line_of(rank).phase, "in the data loader");
  EXPECT_EQ(line_of(rank).silent_seconds, 0.5);
  rank.state = RankStatus::State::dead;
  rank.silent_seconds = {};
  EXPECT_EQ(line_of(rank).phase, "dead");
  EXPECT_LT(line_of(rank).silent_seconds, 0);
}

TEST(RunStatus, WhatIsNotKnownIsNull) {
  RunStatus unknown;
  unknown.host = "\xff";
  const RunStatus status = parse_status(status_json(unknown), "status.json");
  EXPECT_TRUE(std::isnan(status.progress.loss));
  EXPECT_EQ(status.accuracy, std::nullopt);
}

TEST(RunStatus, RefusesWhatIsNoStatus) {
  const std::string good = status_json(some_status());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    EXPECT_NE(text.find(from), text.npos) << from;
    return text.replace(text.find(from), from.size(), to);
  };
  int refused = 0;
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{}"), std::string(100'000, '['),
        "{\"format\": 1, \"ranks\": [" + std::string(kMostStatusBytes, ' ') + "]}",
        with("\"format\": 1", "\"format\": 2"), with("\"stopped\"", "\"asleep\""), with("\"step\": 9", "\"step\": -9"),
        with("\"steps\": 15", "\"steps\": 1e300"), with("\"loss\": 0.5", "\"loss\": \"0.5\""),
        with("\"host\": \"node1\"", "\"host\": 1"), with("\"pid\": 7", "\"pid\": 18446744073709551615"),
        with("\"phase\"", "\"fase\""), with("\"ranks\": [", "\"ranks\": 7, \"more\": [")}) {
    try {
      parse_status(text, "status.json");
      ADD_FAILURE() << "accepted: " << text.substr(0, 200);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Exit::data);
      EXPECT_HAS(std::string(e.what()), "status.json");
      ++refused;
    }
  }
  EXPECT_EQ(refused, 14);
}

}  // namespace
}  // namespace ddp
