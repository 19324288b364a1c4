// The doctor's findings about GPUs and their libraries.
#include "tests/app/commands/doctor/fakes.h"

namespace ddp::doctor {
namespace {

DeviceConfig options_for(DeviceKind kind) { return {.kind = kind}; }

TEST(DoctorGpus, OneGpuPerRankIsOk) {
  const auto ranks = with_gpus(2, 4);
  expect_fine(check_gpus(ranks, options_for(DeviceKind::automatic), "mpirun"));
  EXPECT_TRUE(runs_on_gpus(ranks, DeviceKind::automatic));
  EXPECT_FALSE(runs_on_gpus(ranks, DeviceKind::cpu));
  expect_fine(check_gpus(ranks, options_for(DeviceKind::cpu), "mpirun"));
}

TEST(DoctorGpus, ReportsAMissingDriver) {
  auto ranks = healthy(1, 2);
  expect_fine(check_gpus(ranks, options_for(DeviceKind::automatic), "mpirun"));
  expect_only(check_gpus(ranks, options_for(DeviceKind::cuda), "mpirun"), Verdict::fault,
              {"--device cuda", "no NVIDIA driver"}, "ddp_train --device cpu", Exit::device);
  EXPECT_FALSE(runs_on_gpus(ranks, DeviceKind::cuda));
  ranks[0].here.nvidia_devices = 8;
  ranks[0].gpu.libraries = {{"CUDA", {13, 0, 0}, {13, 0, 0}}};
  expect_only(check_gpus(ranks, options_for(DeviceKind::cuda), "mpirun"), Verdict::fault, {"no NVIDIA driver"},
              "apt-get install nvidia-driver", Exit::device);
  expect_only(check_gpus(ranks, options_for(DeviceKind::automatic), "mpirun"), Verdict::warning,
              {"8 NVIDIA devices", "computes on CPUs"}, "apt-get install nvidia-driver");
  ranks[0].here.container = true;
  EXPECT_EQ(check_gpus(ranks, options_for(DeviceKind::automatic), "mpirun")[0].fix, "docker run --gpus all");
  ranks[0].gpu.libraries.clear();  // built without CUDA
  EXPECT_EQ(check_gpus(ranks, options_for(DeviceKind::automatic), "mpirun")[0].fix, "launch/build cuda");
}

TEST(DoctorGpus, ReportsADriverTooOldForCuda) {
  auto ranks = healthy(1, 2);  // the driver rejects this CUDA, so no GPU is visible
  for (RankFacts& rank : ranks) {
    rank.gpu.driver = {12, 4, 0};
    rank.gpu.libraries = {{"CUDA", {13, 0, 0}, {13, 0, 0}}};
  }
  const std::string fix = "apt-get install --only-upgrade nvidia-driver";
  expect_only(check_gpus(ranks, options_for(DeviceKind::cuda), "mpirun"), Verdict::fault,
              {"up to 12.4", "this is CUDA 13.0"}, fix, Exit::device);
  expect_only(check_gpus(ranks, options_for(DeviceKind::automatic), "mpirun"), Verdict::warning, {"up to 12.4"}, fix);
  auto within_major = with_gpus(1, 2);
  for (RankFacts& rank : within_major) rank.gpu.libraries[0] = {"CUDA", {13, 1, 0}, {13, 1, 0}};
  expect_only(check_gpus(within_major, options_for(DeviceKind::automatic), "mpirun"), Verdict::warning,
              {"up to 13.0", "this is CUDA 13.1"}, fix);
}

TEST(DoctorGpus, ReportsOldLibraries) {
  auto ranks = with_gpus(1, 2);
  for (RankFacts& rank : ranks) rank.gpu.libraries[1].loaded = {9, 10, 2};
  expect_only(check_gpus(ranks, options_for(DeviceKind::automatic), "mpirun"), Verdict::warning,
              {"cuDNN on a is 9.10.2", "compiled for 9.19.0"}, "launch/build cuda");
  for (RankFacts& rank : ranks) rank.gpu.libraries[1].loaded = {8, 9, 7};
  expect_only(check_gpus(ranks, options_for(DeviceKind::automatic), "mpirun"), Verdict::fault, {"cuDNN on a is 8.9.7"},
              "launch/build cuda", Exit::device);
  for (RankFacts& rank : ranks) rank.gpu.libraries[1].loaded = {9, 20, 0};
  expect_fine(check_gpus(ranks, options_for(DeviceKind::automatic), "mpirun"));
}

TEST(DoctorGpus, ReportsTwoRanksOnOneGpu) {
  auto ranks = with_gpus(2, 2);
  ranks[2].gpu.visible = 1;  // the launcher shows both ranks the same single GPU
  ranks[3].gpu = ranks[2].gpu;
  expect_only(check_gpus(ranks, options_for(DeviceKind::automatic), "mpirun"), Verdict::fault,
              {"ranks 2 and 3 have the same GPU", "on b"}, "mpirun -np 3", Exit::device);
  EXPECT_EQ(check_gpus(ranks, options_for(DeviceKind::automatic), "srun")[0].fix, "srun -n 3");
  DeviceConfig shared = options_for(DeviceKind::automatic);
  shared.share_gpu = true;
  expect_fine(check_gpus(ranks, shared, "mpirun"));
}

TEST(DoctorGpus, ReportsMoreRanksThanGpus) {
  auto ranks = with_gpus(1, 4);
  for (RankFacts& rank : ranks) {
    rank.gpu.visible = 2;
    rank.gpu.uuid = std::to_string(rank.local_rank % 2);
  }
  expect_only(check_gpus(ranks, options_for(DeviceKind::automatic), "mpirun"), Verdict::fault,
              {"local rank 2 has no GPU", "shows 2"}, "mpirun -np 2", Exit::device);
}

TEST(DoctorGpus, ReportsRanksWithoutAGpu) {
  auto ranks = with_gpus(2, 1);
  ranks[1].gpu = healthy(1, 1)[0].gpu;
  for (const DeviceKind asked : {DeviceKind::automatic, DeviceKind::cuda})
    expect_only(check_gpus(ranks, options_for(asked), "mpirun"), Verdict::fault,
                {"rank 0 sees a GPU and rank 1 sees none"}, "ddp_train --device cpu", Exit::device);
}

TEST(DoctorGpus, WarnsOfGpusWithoutPeerAccess) {
  auto ranks = with_gpus(2, 2);
  ranks[0].gpu.out_of_reach = {"0000:77:00.0"};  // the GPU of no rank
  expect_fine(check_gpus(ranks, options_for(DeviceKind::automatic), "mpirun"));
  ranks[2].gpu.out_of_reach = {ranks[3].gpu.bus_id};
  ranks[3].gpu.out_of_reach = {ranks[2].gpu.bus_id};
  expect_only(check_gpus(ranks, options_for(DeviceKind::automatic), "mpirun"), Verdict::warning,
              {"on b the GPUs of ranks 2 and 3 cannot reach"}, kHint + std::string("nvidia-smi topo -p2p r"));
}

TEST(DoctorGpus, DifferentGpusAreOk) {
  auto ranks = with_gpus(1, 2);
  ranks[1].gpu.name = "NVIDIA A100";
  expect_fine(check_gpus(ranks, options_for(DeviceKind::automatic), "mpirun"));
}

}  // namespace
}  // namespace ddp::doctor
