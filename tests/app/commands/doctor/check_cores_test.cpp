#include "tests/app/commands/doctor/fakes.h"

namespace ddp::doctor {
namespace {

TEST(DoctorCores, SeparateCoresAreOk) {
  expect_fine(check_cores(healthy(2, 4), false, "mpirun"));
  auto unbound = healthy(1, 4);
  for (RankFacts& rank : unbound) rank.cores = unbound[0].here.cores;
  expect_fine(check_cores(unbound, false, "mpirun"));
}

TEST(DoctorCores, ReportsTwoRanksOnOneCoreBesideIdleCores) {
  auto ranks = healthy(2, 2);
  for (const int rank : {2, 3}) ranks[rank].cores = {5};
  for (const bool on_gpus : {false, true}) {
    const Findings found = check_cores(std::span(ranks).subspan(2), on_gpus, "mpirun");
    expect_only(found, Verdict::fault, {"ranks 0-1 on b share core 5", "cores 0-4,6-7 are idle"},
                "taskset -c 0-7 mpirun --bind-to none", Exit::device);
  }
  EXPECT_EQ(check_cores(std::span(ranks).subspan(2), false, "srun")[0].fix, "srun --cpu-bind=none");
}

TEST(DoctorCores, MoreThreadsThanCoresIsAWarning) {
  auto ranks = healthy(1, 3);
  ranks[0].here.cores = {0, 1};
  for (RankFacts& rank : ranks) rank.cores = {0, 1};
  expect_only(check_cores(ranks, false, "mpirun"), Verdict::warning,
              {"ranks 0-2 with 1 thread each on a share cores 0-1"}, "mpirun -np 2");
  EXPECT_EQ(check_cores(ranks, false, "srun")[0].fix, "srun -n 2");
  expect_fine(check_cores(ranks, true, "mpirun"));
  ranks.pop_back();
  expect_fine(check_cores(ranks, false, "mpirun"));
  for (RankFacts& rank : ranks) rank.threads = 2;
  expect_only(check_cores(ranks, false, "mpirun"), Verdict::warning, {"ranks 0-1 with 2 threads each"},
              "ddp_train --threads 1");
}

TEST(DoctorCores, RespectsTheContainerLimit) {
  auto ranks = healthy(1, 4);
  for (RankFacts& rank : ranks) rank.cores = ranks[0].here.cores;
  ranks[0].here.cpu_max = "200000 100000";
  expect_only(check_cores(ranks, false, "mpirun"), Verdict::warning,
              {"ranks 0-3", "share cores 0-7, of which the container may use 2 at a time"}, "mpirun -np 2");
}

TEST(DoctorCores, IdleCoresAreAWarning) {
  auto ranks = healthy(1, 2);
  ranks[0].cores = {0};
  ranks[1].cores = {1};
  expect_only(check_cores(ranks, false, "mpirun"), Verdict::warning, {"bound to cores 0-1", "cores 2-7 are idle"},
              "taskset -c 0-7 mpirun --bind-to none");
  expect_fine(check_cores(ranks, true, "mpirun"));  // GPUs compute
  expect_fine(check_cores(ranks, false, ""));       // the user bound the ranks
  expect_fine(check_cores(ranks, false, "srun"));   // other cores may belong to other jobs
  auto in_a_job = ranks;
  in_a_job[0].environment["SLURM_JOB_ID"] = "7";
  expect_fine(check_cores(in_a_job, false, "mpirun"));
  ranks[0].threads = 1;  // as requested
  expect_fine(check_cores(ranks, false, "mpirun"));
  ranks[0].threads = 0;
  auto rest = healthy(1, 3);  // eight cores, two per rank, two idle
  expect_fine(check_cores(rest, false, "mpirun"));
  ranks[0].here.cpu_max = "300000 100000";  // the container's limit is 3 cores
  expect_fine(check_cores(ranks, false, "mpirun"));
}

}  // namespace
}  // namespace ddp::doctor
