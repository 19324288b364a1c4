// Which operations around a convolution cuDNN fuses with it on an H200, in kernels that it compiles at run time: a
// second each. DDP_EVERY_FUSION=1 tests each convolution of the residual networks, and prints the kernels.
#include "ops/cuda/cudnn_plan.h"
#include "tests/ops/cuda/convolutions.h"
#include "tests/ops/cuda/fused_graphs.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace ddp::cudnn::testing {
namespace {

constexpr int64_t kImages = 256;
constexpr const char* kNames[] = {"statistics", "sum", "sum and ReLU"};

// One kernel: cuDNN's first choice.
std::string kernel_of(const Target& target, const Conv2dDesc& desc, Fusion fusion) {
  const Graph graph = fused_graph(target, desc, kImages, DType::bf16, fusion).graph;
  const auto plans = find_plans(target, graph, {.precision = Precision::bf16, .workspace = int64_t{512} << 20}, 1);
  if (plans.empty()) return "";
  EXPECT_TRUE(plans[0].notes().has(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION));
  return fmt::format("engine {}", plans[0].choice().engine);
}

class Fusions : public ::testing::Test {
 protected:
  // cuDNN opens the driver by its name, which this library has: what is open already is not opened again.
  void SetUp() override { ASSERT_TRUE(dlopen(DDP_DRIVER, RTLD_NOW | RTLD_GLOBAL)) << dlerror(); }
};

TEST_F(Fusions, AreCompiled) {
  const Target target = h200();
  const bool every = std::getenv("DDP_EVERY_FUSION") != nullptr;
  for (const char* const model : {"resnet18", "torchvision-resnet18", "torchvision-resnet50"}) {
    for (const Convolution& conv : convolutions_of(model)) {
      if (!every && !conv.desc.input_gradient) continue;
      for (const Fusion fusion : kFusions) {
        if (pass_of(fusion) == Pass::input_gradient && !conv.desc.input_gradient) continue;
        SCOPED_TRACE(fmt::format("{}, {}", conv.name, kNames[static_cast<int>(fusion)]));
        const std::string kernel = kernel_of(target, conv.desc, fusion);
        EXPECT_NE(kernel, "");
        if (every) fmt::print("{:<60} {:<12} {}\n", conv.name, kNames[static_cast<int>(fusion)], kernel);
      }
      if (!every) return;
    }
  }
}

}  // namespace
}  // namespace ddp::cudnn::testing
