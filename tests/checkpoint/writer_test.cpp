#include "checkpoint/writer.h"

#include "tests/checkpoint/fixture.h"
#include "tests/spans.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <future>

namespace ddp {
namespace {

class Writer : public CheckpointFolder {
 protected:
  std::vector<int64_t> steps() const {
    std::vector<int64_t> steps;
    for (const fs::path& path : list_checkpoints(folder)) steps.push_back(read_run_state(path).step);
    return steps;
  }
  // The writer reads the values later.
  SnapshotView kept(int64_t step) { return kept_.emplace_back(weights.snapshot(step)).view(); }

 private:
  std::deque<Snapshot> kept_;
};

TEST_F(Writer, TrainingContinuesDuringAWriteAndTheNextSaveWaits) {
  std::promise<void> opened;
  std::shared_future<void> gate = opened.get_future();
  CheckpointWriter writer(
      {.folder = folder, .keep_last = 0, .about_to_write = [gate](const fs::path&) { gate.wait(); }},
      weights.tensors());
  writer.save(kept(1), false);  // hangs here if save waits for the file
  EXPECT_TRUE(writer.outcomes().empty());
  EXPECT_TRUE(list_checkpoints(folder).empty());

  auto second = std::async(std::launch::async, [&] { writer.save(kept(2), true); });
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(30)), std::future_status::timeout);
  opened.set_value();
  second.get();
  EXPECT_FALSE(writer.outcomes().empty());
  writer.finish();
  EXPECT_EQ(steps(), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(fs::read_symlink(folder / "best"), "step-00000002");
}

TEST_F(Writer, RecordsEachWrite) {
  testing::RecordedSpans spans;
  CheckpointWriter writer({.folder = folder, .spans = &spans}, weights.tensors());
  writer.save(kept(7), false);
  writer.finish();
  spans.wanted = false;
  writer.save(kept(8), false);
  writer.finish();
  ASSERT_EQ(spans.all().size(), 1u);
  const Span span = spans.all()[0];
  EXPECT_EQ(span.track, Track::checkpoint);
  EXPECT_EQ(span.number, 7);
  EXPECT_DOUBLE_EQ(1e-9 * static_cast<double>(span.end_ns - span.begin_ns), writer.outcomes()[0].seconds);
}

TEST_F(Writer, OutcomesAreReportedOnceInOrder) {
  CheckpointWriter writer({.folder = folder}, weights.tensors());
  writer.save(kept(1), false);
  writer.save(kept(2), false);
  writer.finish();
  const auto outcomes = writer.outcomes();
  ASSERT_EQ(outcomes.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(outcomes[i].step, static_cast<int64_t>(i) + 1);
    EXPECT_EQ(outcomes[i].error, "");
    EXPECT_GT(outcomes[i].seconds, 0);
    EXPECT_EQ(read_run_state(outcomes[i].path).step, outcomes[i].step);
  }
  EXPECT_TRUE(writer.outcomes().empty());
}

TEST_F(Writer, KeepsTheRequestedNumber) {
  CheckpointWriter writer({.folder = folder, .keep_last = 2}, weights.tensors());
  for (const int64_t step : {1, 2, 3, 4, 5}) writer.save(kept(step), step == 1);
  writer.finish();
  EXPECT_EQ(steps(), (std::vector<int64_t>{5, 4, 1}));
}

TEST_F(Writer, FailureIsReportedAndTheNextSaveWorks) {
  std::atomic<int> calls = 0;
  const auto second_file_fails = [&](const fs::path&) {
    if (++calls == 6) fail(Exit::output, "no room");
  };
  CheckpointWriter writer({.folder = folder, .about_to_write = second_file_fails}, weights.tensors());
  for (const int64_t step : {1, 2, 3}) {
    writer.save(kept(step), false);
    writer.finish();
    EXPECT_EQ(writer.outcomes().at(0).error, step == 2 ? "no room" : "");
    EXPECT_EQ(fs::read_symlink(folder / "latest"), step == 3 ? "step-00000003" : "step-00000001");
  }
  EXPECT_EQ(steps(), (std::vector<int64_t>{3, 1}));
}

TEST_F(Writer, DestructorWaits) {
  {
    CheckpointWriter writer({.folder = folder}, weights.tensors());
    writer.save(kept(1), false);
  }
  EXPECT_EQ(steps(), (std::vector<int64_t>{1}));
}

}  // namespace
}  // namespace ddp
