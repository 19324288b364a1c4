// The doctor's findings about ranks, cores and memory.
#include "app/doctor/system.h"
#include "tests/app/doctor/fakes.h"

namespace ddp::doctor {
namespace {

constexpr int64_t kMiB = 1 << 20;

TEST(DoctorWorld, CountsRanksPerHost) {
  const auto ranks = healthy(2, 3);
  const Findings found = check_world(ranks, ExpectedWorld{6, "mpirun", "OMPI_COMM_WORLD_SIZE", "", 0, 0});
  expect_fine(found);
  EXPECT_EQ(found[0].found, "6 ranks: 3 on a, 3 on b, as mpirun promised");
  EXPECT_NE(check_world(healthy(1, 1), std::nullopt)[0].found.find("mpirun -np N"), std::string::npos);
}

TEST(DoctorWorld, UnexpectedWorldSizeIsAFault) {
  const auto ranks = healthy(1, 1);
  const Findings found = check_world(ranks, ExpectedWorld{4, "srun", "SLURM_STEP_NUM_TASKS", "", 0, 0});
  expect_only(found, Verdict::fault, {"srun promised 4 ranks", "SLURM_STEP_NUM_TASKS", "has 1"},
              "srun --mpi=pmix -n 4 ddp_train", Exit::world);
}

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

TEST(DoctorSharedMemory, RoomForEverySegmentIsOk) {
  auto ranks = healthy(1, 4);
  expect_fine(check_shared_memory(ranks, false));
  ranks[0].here.memory.free = ranks[0].here.memory.bytes = 64 * kMiB;
  expect_fine(check_shared_memory(ranks, false));
  auto alone = healthy(2, 1);  // one rank per host
  for (RankFacts& rank : alone) rank.here.memory.free = 0;
  expect_fine(check_shared_memory(alone, false));
}

TEST(DoctorSharedMemory, OneMegabyteIsAFault) {
  auto ranks = healthy(1, 2);
  ranks[0].here.memory.free = ranks[0].here.memory.bytes = kMiB;
  expect_only(check_shared_memory(ranks, false), Verdict::fault, {"/dev/shm has 1 MiB", "2 ranks want 4 MiB"},
              "mount -o remount,size=1g /dev/shm", Exit::communication);
  ranks[0].here.container = true;
  EXPECT_EQ(check_shared_memory(ranks, false)[0].fix, "docker run --shm-size=1g");
  ranks[0].here.memory = {"/dev/shm", false, 0, 0, 4 * kMiB};
  expect_only(check_shared_memory(ranks, false), Verdict::fault, {"/dev/shm cannot be written"},
              "docker run --shm-size=1g", Exit::communication);
}

TEST(DoctorSharedMemory, RoomForSomeSegmentsIsAWarning) {
  auto ranks = healthy(1, 4);
  ranks[0].here.memory.free = 11 * kMiB;
  expect_only(check_shared_memory(ranks, false), Verdict::warning, {"11.0 free on a", "SIGBUS"},
              "mount -o remount,size=1g /dev/shm");
}

TEST(DoctorSharedMemory, NcclNeedsMore) {
  auto ranks = with_gpus(1, 2);
  ranks[0].here.memory.free = 64 * kMiB;
  expect_fine(check_shared_memory(ranks, false));
  expect_only(check_shared_memory(ranks, true), Verdict::warning, {"NCCL"}, "mount -o remount,size=1g /dev/shm");
}

TEST(DoctorLockedMemory, MattersForRdmaOnly) {
  auto ranks = healthy(1, 2);
  ranks[0].here.locked_memory = 8 * kMiB;
  expect_fine(check_locked_memory(ranks, true));
  ranks[0].here.rdma = true;
  expect_only(check_locked_memory(ranks, true), Verdict::warning, {"8 MiB on a"}, "ulimit -l unlimited");
  ranks[0].here.locked_memory = -1;
  expect_fine(check_locked_memory(ranks, true));
}

TEST(DoctorBeforeMpi, ReportsRanksThatCannotConnect) {
  HostFacts here = healthy(1, 2)[0].here;
  Environment environment{{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  EXPECT_FALSE(check_before_mpi(here, environment));
  here.memory.free = kMiB;
  EXPECT_FALSE(check_before_mpi(here, environment));  // over eth0
  here.interfaces[1].up = false;
  const auto found = check_before_mpi(here, environment);
  ASSERT_TRUE(found);
  for (const char* other_way : {"OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_btl_tcp_if_exclude"}) {
    environment[other_way] = "x";
    EXPECT_FALSE(check_before_mpi(here, environment)) << other_way;
    environment.erase(other_way);
  }
  expect_only({*found}, Verdict::fault, {"/dev/shm", "besides lo"}, "mount -o remount,size=1g /dev/shm",
              Exit::communication);
  environment["OMPI_COMM_WORLD_LOCAL_SIZE"] = environment["OMPI_COMM_WORLD_SIZE"] = "1";
  EXPECT_FALSE(check_before_mpi(here, environment));
}

TEST(DoctorSharedMemory, ChecksTheBackingFolderOfOpenMpi) {
  auto ranks = healthy(1, 2);
  ranks[0].here.memory = {"/full", true, kMiB, kMiB, 4 * kMiB};
  expect_only(check_shared_memory(ranks, false), Verdict::fault, {"/full has 1 MiB"},
              "unset OMPI_MCA_btl_vader_backing_directory", Exit::communication);
}

TEST(DoctorBeforeMpi, OtherHostsNeedAnInterface) {
  HostFacts here = healthy(1, 1)[0].here;
  Environment environment{{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}};
  EXPECT_FALSE(check_before_mpi(here, environment));
  for (const char* good : {"eth0", "nope,eth0", "10.0.0.0/16"}) {
    environment["OMPI_MCA_btl_tcp_if_include"] = good;
    EXPECT_FALSE(check_before_mpi(here, environment)) << good;
  }
  for (const char* bad : {"eth1", "nope", "10.1.0.0/16"}) {
    environment["OMPI_MCA_btl_tcp_if_include"] = bad;
    const auto found = check_before_mpi(here, environment);
    ASSERT_TRUE(found) << bad;
    expect_only({*found}, Verdict::fault, {bad}, "unset OMPI_MCA_btl_tcp_if_include", Exit::communication);
  }
  environment.erase("OMPI_MCA_btl_tcp_if_include");
  here.interfaces.clear();
  expect_only({check_before_mpi(here, environment).value()}, Verdict::fault, {"there are other hosts"},
              kHint + std::string("ip link"), Exit::communication);
}

TEST(DoctorSystem, ThisHostHasALoopback) {
  const auto interfaces = network_interfaces();
  EXPECT_TRUE(std::any_of(interfaces.begin(), interfaces.end(), [](const auto& i) { return i.name == "lo"; }));
}

TEST(DoctorFacts, RoundTripAsText) {
  const RankFacts sent = with_gpus(1, 2)[1];
  const RankFacts got = facts_from(to_text(sent));
  EXPECT_EQ(got.host, sent.host);
  EXPECT_EQ(got.cores, sent.cores);
  EXPECT_EQ(got.gpu.uuid, sent.gpu.uuid);
  EXPECT_EQ(got.gpu.libraries.at(1).loaded, sent.gpu.libraries.at(1).loaded);
}

}  // namespace
}  // namespace ddp::doctor
