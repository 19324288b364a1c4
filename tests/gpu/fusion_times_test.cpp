// The times of convolutions with what cuDNN fuses with them, beside those without it: whether a fusion is worth more
// than the kernel that it saves.
#include "core/error.h"
#include "ops/cuda/context.h"
#include "ops/cuda/cudnn_timing.h"
#include "tests/gpu/fixture.h"
#include "tests/ops/cuda/convolutions.h"
#include "tests/ops/cuda/fused_graphs.h"

#include <algorithm>
#include <map>

namespace ddp::cudnn::testing {
namespace {

constexpr int64_t kImages = 256;
constexpr const char* kPasses[] = {"forward", "weight gradient", "input gradient"};
constexpr const char* kFusionNames[] = {"forward + statistics", "input gradient + sum", "input gradient + sum + ReLU"};

class FusionsOnGpu : public ::testing::Test {
 protected:
  FusionsOnGpu() { DDP_CUDNN(cudnnSetStream(handle_.get(), context_.stream)); }

  // Microseconds of the fastest plan; 0: there is none.
  double fastest(const FusedGraph& made) {
    const Rules rules{.precision = Precision::bf16, .workspace = int64_t{512} << 20};
    std::vector<Plan> plans = find_plans(target_, made.graph, rules);
    if (plans.empty()) return 0;
    return std::ranges::min(measure(context_, handle_.get(), plans, made.bytes, DType::bf16, kSecondsOfAPass));
  }

  const Target& target() const { return target_; }

 private:
  static cudnnHandle_t create() {
    cudnnHandle_t created = nullptr;
    DDP_CUDNN(cudnnCreate(&created));
    return created;
  }

  std::unique_ptr<Device> device_ = make_cuda_device({});
  CudaContext context_{*device_, {.precision = Precision::bf16}};
  std::unique_ptr<cudnnContext, Destroy<cudnnDestroy>> handle_{create()};
  Target target_{handle_.get()};
};

TEST_F(FusionsOnGpu, AreMeasuredBesideTheirConvolutions) {
  std::map<std::string, double> sums;  // microseconds
  for (const Convolution& conv : convolutions_of("resnet18")) {
    if (!conv.desc.input_gradient) continue;
    std::map<Pass, double> plain;
    for (const Pass pass : {Pass::forward, Pass::input_gradient}) {
      plain[pass] = fastest(plain_graph(target(), conv.desc, kImages, DType::bf16, pass));
      EXPECT_GT(plain[pass], 0);
      sums[kPasses[static_cast<int>(pass)]] += plain[pass];
    }
    for (const Fusion fusion : kFusions) {
      const double us = fastest(fused_graph(target(), conv.desc, kImages, DType::bf16, fusion));
      const char* const name = kFusionNames[static_cast<int>(fusion)];
      fmt::print("fusions: {:<50} {:<28} {:8.1f} us, without it {:8.1f} us\n", conv.name, name, us,
                 plain[pass_of(fusion)]);
      sums[name] += us;
    }
  }
  for (const auto& [name, us] : sums) ddp::testing::print_figure((name + ", us").c_str(), us);
}

}  // namespace
}  // namespace ddp::cudnn::testing
