#include "app/machine/gpus.h"

#include "core/error.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace ddp {
namespace {

std::string refusal(const std::function<void()>& decision) {
  try {
    decision();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::device);
    return e.what();
  }
  return "nothing";
}

TEST(ChooseDevice, PicksTheGpuIfEveryRankHasOne) {
  const std::vector<int> all{8, 8, 1}, none{0, 0};
  EXPECT_EQ(choose_device(DeviceKind::automatic, all, ""), DeviceKind::cuda);
  EXPECT_EQ(choose_device(DeviceKind::cuda, all, ""), DeviceKind::cuda);
  EXPECT_EQ(choose_device(DeviceKind::cpu, all, ""), DeviceKind::cpu);
  EXPECT_EQ(choose_device(DeviceKind::automatic, none, "no driver"), DeviceKind::cpu);
}

TEST(ChooseDevice, RefusesAGpuThatARankLacks) {
  const std::vector<int> none{0, 0}, mixed{2, 2, 0};
  EXPECT_NE(refusal([&] { choose_device(DeviceKind::cuda, none, "no driver"); }).find("no driver"), std::string::npos);
  for (const DeviceKind asked : {DeviceKind::automatic, DeviceKind::cuda}) {
    const std::string text = refusal([&] { choose_device(asked, mixed, ""); });
    EXPECT_NE(text.find("rank 0 sees a GPU and rank 2 sees none"), std::string::npos) << text;
  }
}

TEST(UnfitOptions, AreThoseOfTheOtherDevice) {
  const auto names = [](const DeviceConfig& config, const TransportConfig& transport, DeviceKind device) {
    std::string text;
    for (const UnfitOption& unfit : unfit_options(config, transport, device)) text += unfit.name + std::string(" ");
    return text;
  };
  DeviceConfig cpu, gpu;
  cpu.threads = 2;
  cpu.winograd = false;
  gpu.graphs = false;
  gpu.precision = Precision::tf32;
  EXPECT_EQ(names(cpu, {.allreduce = Allreduce::ring}, DeviceKind::cuda), "--threads --conv --allreduce ");
  EXPECT_EQ(names(cpu, {.allreduce = Allreduce::ring}, DeviceKind::cpu), "");
  EXPECT_EQ(names(gpu, {.nccl_ring = true}, DeviceKind::cpu), "--precision --nccl-algo --no-graph ");
  EXPECT_EQ(names(gpu, {.nccl_ring = true}, DeviceKind::cuda), "");
  EXPECT_EQ(unfit_options(gpu, {}, DeviceKind::cpu)[0].refusal,
            "--precision tf32 is for GPUs; this run computes on the CPU");
}

TEST(ChooseTransport, IsNcclBetweenGpusOnly) {
  using enum TransportKind;
  EXPECT_EQ(choose_transport(automatic, true), nccl);
  EXPECT_EQ(choose_transport(nccl, true), nccl);
  EXPECT_EQ(choose_transport(mpi, true), mpi);
  EXPECT_EQ(choose_transport(automatic, false), mpi);
  EXPECT_EQ(choose_transport(mpi, false), mpi);
}

TEST(ChooseGpu, FollowsTheLocalRank) {
  for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(choose_gpu(rank, 8, false), rank);
  EXPECT_EQ(choose_gpu(3, 1, false), 0);  // the launcher shows each rank its own GPU only
  EXPECT_EQ(choose_gpu(5, 2, true), 1);
  EXPECT_NE(refusal([] { choose_gpu(2, 2, false); }).find("--share-gpu"), std::string::npos);
}

TEST(RequireDistinctGpus, NamesTheRanksThatShare) {
  std::vector<RankGpu> ranks{{"a", "0000:1b:00.0", "x"}, {"a", "0000:1c:00.0", "y"}, {"b", "0000:1b:00.0", "x"}};
  EXPECT_NO_THROW(require_distinct_gpus(ranks));
  ranks.push_back({"a", "0000:1c:00.0", "y"});
  const std::string text = refusal([&] { require_distinct_gpus(ranks); });
  EXPECT_NE(text.find("ranks 1 and 3"), std::string::npos) << text;
  EXPECT_NE(text.find("0000:1c:00.0 on a"), std::string::npos) << text;
}

}  // namespace
}  // namespace ddp
