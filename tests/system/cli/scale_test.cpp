// Many ranks and many steps on a small machine.
#include "core/error.h"
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/idx_data.h"
#include "tests/system/cli/job.h"
#include "tests/system/cli/run_folder.h"

#include <cstdlib>

namespace ddp::testing {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

TEST(Scale, ThirtyTwoRanksTrainLikeOne) {
  const TempFolder folder;
  few_images(folder / "data", 100, 50);  // a step's last shards are empty
  std::vector<double> expected;
  for (const int ranks : {0, 32}) {
    const auto run = folder / fmt::format("run{}", ranks);
    const Outcome outcome =
        program(ranks, fmt::format("--model mlp --data-path {} --batch-size 80 --max-steps 3 --lr 0.05 --threads 1 "
                                   "--output-dir {}",
                                   (folder / "data").string(), run.string()));
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(values_of<int64_t>(run, "step", "samples"), (std::vector<int64_t>{80, 20, 80}));
    std::vector<double> losses = values_of<double>(run, "step", "loss");
    losses.push_back(events(run, "eval").back().at("loss").get<double>());
    if (ranks == 0) expected = losses;
    ASSERT_EQ(losses.size(), expected.size());
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-5 * expected[i]) << i;
  }
}

struct Held {
  long anonymous = 0, other = 0;  // resident memory in KiB: of the heap and the stacks; of files and shared memory
  int files = 0;
};

Held held_by(pid_t pid) {
  std::ifstream memory(fmt::format("/proc/{}/smaps_rollup", pid));  // exact, unlike status
  long resident = 0;
  Held held;
  for (std::string line; std::getline(memory, line);) {
    if (line.starts_with("Rss:")) resident = std::stol(line.substr(4));
    if (line.starts_with("Anonymous:")) held.anonymous = std::stol(line.substr(10));
  }
  held.other = resident - held.anonymous;
  for ([[maybe_unused]] const auto& file : fs::directory_iterator(fmt::format("/proc/{}/fd", pid))) ++held.files;
  return held;
}

// With a save every thousand steps, and an evaluation and a measurement of the speed every two thousand.
TEST(Scale, MemoryAndDescriptorsStayTheSame) {
  const TempFolder folder;
  ::setenv("MALLOC_ARENA_MAX", "1", 1);  // else a new arena for a writer thread looks like a leak
  Job job(folder, 2,
          fmt::format("{} --model mlp --batch-size 8 --epochs 1000 --lr 0.01 --threads 1 --save-every 1000steps "
                      "--keep-last 0 --check-every 0 --tensorboard --output-dir {}",
                      idx_data(folder, 4, 4, 16000, 100), (folder / "run").string()));
  ::unsetenv("MALLOC_ARENA_MAX");
  const auto held_at = [&](int step) {
    const fs::path saved = folder / "run" / "checkpoints" / fmt::format("step-{:08}", step);
    EXPECT_TRUE(within(100s, [&] { return fs::exists(saved); })) << job.output();
    return std::vector{held_by(job.rank(0)), held_by(job.rank(1))};
  };
  const auto early = held_at(2000), late = held_at(20000);
  for (const int rank : {0, 1}) {
    SCOPED_TRACE(rank);
    std::printf("rank %d: %ld to %ld KiB, others %ld to %ld KiB, %d to %d files\n", rank, early[rank].anonymous,
                late[rank].anonymous, early[rank].other, late[rank].other, early[rank].files, late[rank].files);
    EXPECT_GT(early[rank].anonymous, 0);
    EXPECT_LE(late[rank].anonymous, early[rank].anonymous + 100);  // a vector that grows by an int a step takes 160
    EXPECT_LE(late[rank].other, early[rank].other + 256);
    EXPECT_LE(late[rank].files, early[rank].files + 2);  // the writer may have one open
  }
  ::kill(job.rank(0), SIGTERM);
  EXPECT_EQ(job.end(), static_cast<int>(Exit::stopped)) << job.output();
}

}  // namespace
}  // namespace ddp::testing
