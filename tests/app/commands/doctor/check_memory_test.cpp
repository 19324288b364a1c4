// The doctor's findings about memory that ranks share, and the check before MPI starts.
#include "tests/app/commands/doctor/fakes.h"

namespace ddp::doctor {
namespace {

constexpr int64_t kMiB = 1 << 20;

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

TEST(DoctorSharedMemory, ChecksTheBackingFolderOfOpenMpi) {
  auto ranks = healthy(1, 2);
  ranks[0].here.memory = {"/full", true, kMiB, kMiB, 4 * kMiB};
  expect_only(check_shared_memory(ranks, false), Verdict::fault, {"/full has 1 MiB"},
              "unset OMPI_MCA_btl_vader_backing_directory", Exit::communication);
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

TEST(DoctorBeforeMpi, JobsOnOneHostUseSharedMemoryAlone) {
  SharedMemory memory = healthy(1, 2)[0].here.memory;
  EXPECT_EQ(btl_of_one_host(memory, {}), "self");
  Environment environment{{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  EXPECT_EQ(btl_of_one_host(memory, environment), "self,vader");
  for (const char* choice : {"OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_btl_tcp_if_include"}) {
    environment[choice] = "x";
    EXPECT_EQ(btl_of_one_host(memory, environment), "") << choice;
    environment.erase(choice);
  }
  memory.free = 2 * memory.per_rank - 1;
  EXPECT_EQ(btl_of_one_host(memory, environment), "");
  memory.free = 2 * memory.per_rank;
  EXPECT_EQ(btl_of_one_host(memory, environment), "self,vader");
  environment["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  EXPECT_EQ(btl_of_one_host(memory, environment), "");
  EXPECT_EQ(btl_of_one_host(memory, {{"SLURM_NTASKS", "2"}, {"SLURM_PROCID", "0"}, {"PMIX_RANK", "0"}}), "");
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

}  // namespace
}  // namespace ddp::doctor
