// --batch-size max: the batch that the memory plan allows, under a limit of this process.
#include "core/error.h"
#include "tests/system/cli/option_runs.h"

namespace ddp::testing {
namespace {

class BatchMax : public OptionRuns {
 protected:
  // LeNet on 60,000 images, in processes with so many MiB of private memory beside what the program itself takes. The
  // images take 52, and the activations take most of the plan.
  Outcome limited(int64_t mib, int ranks, const std::string& options) const {
    return in_memory(taken_ + mib, ranks, "--eval-every 0 " + options);
  }
  static double found_in(const Outcome& outcome) { return number_after(outcome.output, "--batch-size max is "); }
  static std::string recorded(const fs::path& folder) { return read_file(folder / "config.toml"); }

 private:
  static Outcome in_memory(int64_t mib, int ranks, const std::string& options) {
    const std::string run = ranks == 0 ? DDP_PROGRAM : fmt::format("{} -np {} {}", DDP_MPIRUN, ranks, DDP_PROGRAM);
    return shell(fmt::format("ulimit -d {}; CUDA_VISIBLE_DEVICES= timeout -k 5 400 {} --threads 1 {}", mib * 1024, run,
                             options));
  }
  // In MiB, with 64 images.
  int64_t taken() const {
    const Outcome outcome =
        in_memory(kMost, 0, fmt::format("--config {} --batch-size max --plan", (folder_ / "common.toml").string()));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return kMost - static_cast<int64_t>(number_after(outcome.output, "by the plan, and at least "));
  }

  static constexpr int64_t kMost = 1000;
  const int64_t taken_ = taken();
};

constexpr int64_t kMiB = 540;

TEST_F(BatchMax, TrainsAStepWithinTheLimitAndRecordsTheBatch) {
  const fs::path folder = folder_ / "run";
  const Outcome first =
      limited(kMiB, 0,
              fmt::format("--batch-size max --lr-scale sqrt --max-steps 1 --save-every 1steps --output-dir {}",
                          folder.string()));
  ASSERT_EQ(first.code, 0) << first.output;
  const double size = found_in(first);
  EXPECT_GE(size, 256);
  EXPECT_LT(size, 30'000);  // twice the batch is not the whole data set
  EXPECT_EQ(static_cast<int64_t>(size) % 8, 0);
  EXPECT_EQ(count(recorded(folder), fmt::format("batch-size = {}\n", size)), 1) << recorded(folder);
  EXPECT_EQ(count(first.output, fmt::format("global batch {}, ", size)), 1) << first.output;
  EXPECT_EQ(count(first.output, fmt::format("lr {:.4g}", 0.2 * std::sqrt(size / 256))), 1) << first.output;
  EXPECT_EQ(count(first.output, "the largest batch is rarely the best one"), 1) << first.output;

  // Twice the batch has no room.
  const Outcome twice = limited(
      kMiB, 0, fmt::format("--batch-size {} --max-steps 1 --output-dir {}", 2 * size, (folder_ / "twice").string()));
  EXPECT_EQ(twice.code, static_cast<int>(Exit::device)) << twice.output;
  EXPECT_EQ(count(twice.output, "use a smaller --batch-size"), 1) << twice.output;

  // More memory, and the same batch.
  const Outcome resumed = limited(
      2 * kMiB, 0, fmt::format("--batch-size max --max-steps 2 --resume auto --output-dir {}", folder.string()));
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_EQ(count(resumed.output, "--batch-size max is"), 0) << resumed.output;
}

TEST_F(BatchMax, IsOneForAllRanks) {
  const Outcome equal = limited(kMiB, 2, "--batch-size max --plan");
  const Outcome unequal = limited(kMiB, 2, "--batch-size max --plan --rank-weights 1,3 --accumulate 2");
  for (const Outcome* outcome : {&equal, &unequal}) {
    EXPECT_EQ(outcome->code, 0) << outcome->output;
    EXPECT_EQ(count(outcome->output, "--batch-size max is "), 1) << outcome->output;
    EXPECT_EQ(count(outcome->output, "memory of a rank: "), 1) << outcome->output;
  }
  // Rank 1 has three of four samples of each of two micro-batches.
  EXPECT_NEAR(found_in(unequal) / found_in(equal), 2 * (4.0 / 3) / 2, 0.1);
  const Outcome none = limited(100, 2, "--batch-size max --plan");
  EXPECT_EQ(none.code, static_cast<int>(Exit::device)) << none.output;
  EXPECT_EQ(count(none.output, "--batch-size max: not even a batch of 16 fits"), 1) << none.output;
}

TEST_F(BatchMax, IsTheWholeDataSetWhereThatFits) {
  const Outcome whole = start("--batch-size max --plan");
  EXPECT_EQ(whole.code, 0) << whole.output;
  EXPECT_EQ(found_in(whole), kImages);
  const Outcome shown = program(0, "show --batch-size max --output x.png");
  EXPECT_EQ(shown.code, static_cast<int>(Exit::usage)) << shown.output;
}

}  // namespace
}  // namespace ddp::testing
