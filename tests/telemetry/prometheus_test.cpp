#include "telemetry/prometheus.h"

#include "tests/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace ddp {
namespace {

TEST(Prometheus, WhatIsNotKnownIsNotInTheText) {
  const std::string none = prometheus_text({}, {});
  EXPECT_HAS(none, "# TYPE ddp_train_steps_total counter\nddp_train_steps_total 0\n");
  for (const char* name : {"epoch", "loss", "learning_rate", "samples_per_second", "test_accuracy", "test_loss",
                           "noise_scale_samples", "checkpoint_step", "tokens", "test_perplexity"})
    EXPECT_EQ(none.find(std::string("ddp_train_") + name), std::string::npos) << name;
  const std::string some = prometheus_text({.checkpoint_step = 0, .loss = std::nan(""), .test_loss = 1e30}, {});
  EXPECT_HAS(some, "\nddp_train_loss NaN\n");
  EXPECT_HAS(some, "\nddp_train_test_loss 1e+30\n");
  EXPECT_HAS(some, "\nddp_train_checkpoint_step 0\n");
  EXPECT_HAS(prometheus_text({.loss = std::numeric_limits<double>::infinity()}, {}), "\nddp_train_loss +Inf\n");
}

TEST(Prometheus, TokensHaveMetricsOfTheirOwn) {
  const std::string text = prometheus_text({.tokens = 1024, .tokens_per_second = 8192, .perplexity = 30.5}, {});
  EXPECT_HAS(text, "# TYPE ddp_train_tokens_total counter\nddp_train_tokens_total 1024\n");
  EXPECT_HAS(text, "\nddp_train_tokens_per_second 8192\n");
  EXPECT_HAS(text, "\nddp_train_test_perplexity 30.5\n");
}

TEST(Prometheus, ARankHasItsLabels) {
  const RankStatus rank{.rank = 3,
                        .host = "a\"b\\c\nd",
                        .state = RankStatus::State::stopped,
                        .phase = Phase::data,
                        .step = 17,
                        .phase_seconds = 4.5,
                        .silent_seconds = 4.25};
  const std::string text = prometheus_text({}, {&rank, 1});
  const std::string labels = R"(rank="3",host="a\"b\\c\nd")";
  EXPECT_HAS(text, "\nddp_train_healthy 0\n");
  EXPECT_HAS(text, "\nddp_train_rank_state{" + labels + ",state=\"stopped\"} 1\n");
  EXPECT_HAS(text, "\nddp_train_rank_phase{" + labels + ",phase=\"data\"} 1\n");
  EXPECT_HAS(text, "\nddp_train_rank_phase_seconds{" + labels + "} 4.5\n");
  EXPECT_HAS(text, "\nddp_train_rank_step{" + labels + "} 17\n");
  EXPECT_HAS(text, "\nddp_train_rank_heartbeat_age_seconds{" + labels + "} 4.25\n");
}

}  // namespace
}  // namespace ddp
