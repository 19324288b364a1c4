#include "telemetry/metrics_file.h"

#include "core/error.h"
#include "core/stopwatch.h"
#include "tests/temp_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

namespace ddp {
namespace {

class ResumedMetrics : public ::testing::Test {
 protected:
  // What a run that resumes after step 5 keeps of these lines.
  std::string kept(const std::string& lines, bool evaluation_due = false) const {
    std::ofstream(path) << lines;
    MetricsFile({.path = path, .done = 5, .evaluation_due = evaluation_due}).close(false);
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const TempFolder temp;
  const std::filesystem::path path = temp / "metrics.jsonl";
};

TEST_F(ResumedMetrics, KeepTheEventsOfEarlierSteps) {
  const std::string first = R"({"event":"step","step":5})"
                            "\n"
                            R"({"event":"eval","step":5})"
                            "\n";
  EXPECT_EQ(kept(first + R"({"event":"step","step":6})"
                         "\n"),
            first);
  EXPECT_EQ(kept(first, true), R"({"event":"step","step":5})"
                               "\n");
  const std::string stop = R"({"event":"early_stop","step":5})"
                           "\n";
  EXPECT_EQ(kept(stop), stop);
  EXPECT_EQ(kept(stop, true), "");
}

TEST_F(ResumedMetrics, KeepALongEvent) {
  const std::string timeline = R"({"event":"timeline","step":5,"name":")" + std::string(200'000, 'x') + "\"}\n";
  EXPECT_EQ(kept(timeline), timeline);
}

TEST(MetricsFile, EvaluationsOfAnAverageAndTheEarlyStopAreEvents) {
  const TempFolder temp;
  Evaluation evaluation{.correct = 3, .samples = 4, .expected_samples = 4, .loss = 0.5};
  MetricsFile file({.path = temp / "metrics.jsonl"});
  file.evaluation(2, 40, evaluation, 1);
  evaluation.average = {.accuracy = 0.875, .loss = 0.25};
  file.evaluation(2, 40, evaluation, 1);
  file.early_stop(2, 40, {.best = 0.9, .best_epoch = 1, .bad = 3});
  file.close(false);
  std::ifstream lines(temp / "metrics.jsonl");
  std::string line;
  std::getline(lines, line);
  EXPECT_FALSE(nlohmann::json::parse(line).contains("ema_accuracy"));
  std::getline(lines, line);
  EXPECT_EQ(nlohmann::json::parse(line).at("ema_accuracy"), 0.875);
  EXPECT_EQ(nlohmann::json::parse(line).at("ema_loss"), 0.25);
  std::getline(lines, line);
  EXPECT_EQ(nlohmann::json::parse(line), (nlohmann::json{{"event", "early_stop"},
                                                         {"epoch", 2},
                                                         {"step", 40},
                                                         {"evaluations", 3},
                                                         {"best_accuracy", 0.9},
                                                         {"best_epoch", 1}}));
}

TEST(MetricsFile, TokensAreCountedAndJudgedByTheLoss) {
  const TempFolder temp;
  MetricsFile file({.path = temp / "metrics.jsonl"});
  file.step({.step = 1, .samples = 4, .sequence_length = 256, .skipped = {}});
  file.evaluation(2, 40, {.correct = 300, .samples = 4, .expected_samples = 4, .sequence_length = 250, .loss = 2}, 1);
  file.early_stop(2, 40, {.best_epoch = 1, .bad = 3, .best_loss = 1.5});
  file.step({.step = 1, .samples = 4, .skipped = {}});
  file.close(false);
  std::ifstream lines(temp / "metrics.jsonl");
  const auto next = [&] {
    std::string line;
    std::getline(lines, line);
    return nlohmann::json::parse(line);
  };
  EXPECT_EQ(next().at("tokens"), 1024);
  const auto evaluation = next();
  EXPECT_EQ(evaluation.at("accuracy"), 0.3);
  EXPECT_EQ(evaluation.at("correct"), 300);
  EXPECT_EQ(evaluation.at("tokens"), 1000);
  EXPECT_EQ(evaluation.at("perplexity"), std::exp(2.0));
  const auto stop = next();
  EXPECT_EQ(stop.at("best_loss"), 1.5);
  EXPECT_FALSE(stop.contains("best_accuracy"));
  EXPECT_FALSE(next().contains("tokens"));
}

TEST(MetricsFile, SpeedIsAnEvent) {
  const TempFolder temp;
  MetricsFile({.path = temp / "metrics.jsonl"})
      .speed(2, 40, {.ranks = {{1, 8, 3}, {0.5, 10.5, 1}}, .communication = 4, .batch = 64, .noise_scale = 1000.0});
  std::ifstream file(temp / "metrics.jsonl");
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line,
            R"({"event":"speed","epoch":2,"step":40,"ranks":[{"data_ms":1.0,"compute_ms":8.0,"exposed_comm_ms":3.0},)"
            R"({"data_ms":0.5,"compute_ms":10.5,"exposed_comm_ms":1.0}],"communication_ms":4.0,"noise_scale":1000.0})");
}

// It reads at any moment, also in the middle of a write.
TEST(MetricsFile, AReaderThatFollowsSeesWholeLines) {
  const TempFolder temp;
  const auto path = temp / "metrics.jsonl";
  MetricsFile metrics({.path = path});
  std::atomic<int> looks = 0;
  std::string seen, cut;  // `cut`: ends in a part of a line
  std::jthread reader([&](const std::stop_token& stop) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    std::string buffer(1 << 20, ' ');
    while (!stop.stop_requested()) {
      const ssize_t got = ::read(file, buffer.data(), buffer.size());
      if (got <= 0) {
        std::this_thread::yield();
        continue;
      }
      seen.append(buffer, 0, static_cast<size_t>(got));
      const bool more = std::cmp_equal(got, buffer.size());
      if (!more && cut.empty() && !seen.ends_with('\n')) cut = seen.substr(seen.rfind('\n') + 1);
      ++looks;
    }
    ::close(file);
  });
  int64_t steps = 0;
  for (const Stopwatch watch; steps < 4000 || (looks < 100 && watch.seconds() < 1);) {
    StepResult result;
    result.step = ++steps;
    result.loss = 1 / static_cast<double>(steps);
    metrics.step(result);
    if (steps % 50 != 0 || steps / 1000 % 2 == 0) continue;  // in these thousands the buffer becomes full
    metrics.flush();
    std::this_thread::yield();
  }
  reader.request_stop();
  reader.join();
  metrics.close(false);
  EXPECT_GT(looks, 0);
  EXPECT_EQ(cut, "") << seen.size() << " bytes in " << looks << " looks";

  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_TRUE(text.starts_with(seen));
  std::istringstream lines(text);
  int64_t parsed = 0;
  for (std::string line; std::getline(lines, line);) EXPECT_EQ(nlohmann::json::parse(line).at("step"), ++parsed);
  EXPECT_EQ(parsed, steps);
}

TEST_F(ResumedMetrics, DropWhatIsNoEvent) {
  const std::string good = R"({"event":7,"step":5})"
                           "\n"
                           R"({"event":"note"})"
                           "\n";
  EXPECT_EQ(kept(good + R"({"event":"note","step":"ten"})"
                        "\n[]\n{\n"
                        R"({"step":5,"step":5})"
                        "\n",
                 true),
            good);
  EXPECT_EQ(kept(std::string(100'000, '[') + "\n"), "");
}

TEST_F(ResumedMetrics, AFifoIsRefused) {
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  try {
    const MetricsFile file({.path = path, .done = 5});
    ADD_FAILURE() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::data);
    EXPECT_NE(std::string(e.what()).find("is a FIFO"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace ddp
