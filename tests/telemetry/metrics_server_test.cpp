#include "telemetry/metrics_server.h"

#include "tests/telemetry/http_client.h"
#include "tests/test_clock.h"
#include "tests/text.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace ddp {
namespace {

using testing::get;
using testing::HttpClient;
using testing::status_of;

TEST(MetricsServer, CountsTokensOfARunOnTokens) {
  MetricsServer server({.address = "127.0.0.1", .start = {}, .ranks = [] { return std::vector<RankStatus>(); }});
  const std::string url = server.url();
  const auto port = static_cast<uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
  for (const int64_t step : {1, 2})
    server.step({.step = step, .samples = 4, .sequence_length = 256, .skipped = {}, .times = {.compute = 125}});
  server.evaluation(1, 2, {.correct = 1, .samples = 1, .sequence_length = 2, .loss = 0}, 1);
  const std::string text = get(port, "/metrics");
  EXPECT_HAS(text, "\nddp_train_tokens_total 2048\n");
  EXPECT_HAS(text, "\nddp_train_tokens_per_second 8192\n");
  EXPECT_HAS(text, "\nddp_train_test_accuracy 0.5\n");
  EXPECT_HAS(text, "\nddp_train_test_perplexity 1\n");
}

// The clock stands still, so the server cuts off no client, and each answer comes at the time of its request.
TEST(MetricsServer, StalledClientsDelayNeitherOthersNorASteps) {
  constexpr int kReaders = 6, kSteps = 1000, kRequests = 50;
  constexpr size_t kMoreThanBuffers = 5 << 20;  // of the kernel, for a connection
  testing::TestClock clock;
  std::atomic<int> asked = 0;
  std::atomic<size_t> host_bytes = 1;
  MetricsServer server({.address = "127.0.0.1", .start = {}, .ranks = [&] {
                          ++asked;
                          std::vector<RankStatus> ranks(1);
                          ranks[0].host = std::string(host_bytes, 'h');
                          ranks[0].state = RankStatus::State::running;
                          return ranks;
                        }});
  const std::string url = server.url();
  const auto port = static_cast<uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));

  std::deque<HttpClient> half, readers;
  for (int i = 0; i < 300; ++i)
    half.emplace_back(port).send(i % 2 == 0 ? "GET /metrics HTTP/1.1\r\n" : "GET /healthz HTTP/1.1\r\n");
  EXPECT_EQ(status_of(get(port, "/healthz")), "HTTP/1.1 200");
  EXPECT_EQ(asked, 1);  // the others' requests are not complete

  host_bytes = kMoreThanBuffers;
  for (int i = 0; i < kReaders; ++i)
    readers.emplace_back(port).send(i % 2 == 0 ? "GET /metrics HTTP/1.1\r\n\r\n" : "GET /healthz HTTP/1.1\r\n\r\n");
  get(port, "/healthz");
  EXPECT_EQ(asked, 2 + kReaders);
  host_bytes = 1;

  StepResult step;
  for (step.step = 1; step.step <= kSteps; ++step.step) server.step(step);
  const int64_t reads = clock.reads();
  for (int i = 0; i < kRequests; ++i)
    for (const char* path : {"/healthz", "/metrics"}) EXPECT_EQ(status_of(get(port, path)), "HTTP/1.1 200") << path;
  EXPECT_EQ(asked, 2 + kReaders + 2 * kRequests);
  EXPECT_LT(clock.reads() - reads, 2 * kRequests * 10);  // the server's thread wakes only for what a client does
  EXPECT_HAS(get(port, "/metrics"), "\nddp_train_steps_total " + std::to_string(kSteps) + "\n");

  EXPECT_EQ(half.front().answer(), "");
  half.back().send("\r\n");
  EXPECT_EQ(status_of(half.back().answer()), "HTTP/1.1 200");
  EXPECT_GT(readers[1].answer().size(), kMoreThanBuffers);  // it reads at last
}

}  // namespace
}  // namespace ddp
