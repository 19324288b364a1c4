// cuDNN has plans for the graphs of attention on GPUs from sm_80 on. It compiles their kernels at run time, half a
// second each, so the tests have two shapes on an H200, and GPT-2's alone on the others; DDP_EVERY_ATTENTION=1 tests
// all shapes, and prints the engines.
#include "ops/cuda/cudnn_plan.h"
#include "tests/ops/cuda/convolutions.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace ddp::cudnn::testing {
namespace {

constexpr int64_t kSamples = 8;

struct DescribedGpu {
  const char* file;
  bool deterministic;  // whether the op plans a deterministic backward pass for it
};
void PrintTo(const DescribedGpu& gpu, std::ostream* out) { *out << gpu.file; }

AttentionDesc heads_of(int64_t size, int64_t tokens, bool causal) {
  return {.tokens = tokens, .width = 12 * size, .heads = 12, .causal = causal};
}

class AttentionPlans : public ::testing::TestWithParam<DescribedGpu> {
 protected:
  // cuDNN opens the driver by its name, which this library has: what is open already is not opened again.
  void SetUp() override { ASSERT_TRUE(dlopen(DDP_DRIVER, RTLD_NOW | RTLD_GLOBAL)) << dlerror(); }

  // cuDNN's first choice, made again from its words as on the other ranks.
  void expect_plan(const AttentionGraph& attention, bool deterministic, int64_t least, int64_t most, const char* pass) {
    SCOPED_TRACE(pass);
    const Rules rules{Precision::bf16, deterministic, int64_t{512} << 20};
    const Graph graph = graph_of(target_, attention);
    const std::vector<Plan> found = find_plans(target_, graph, rules, 1);
    ASSERT_FALSE(found.empty());
    const Plan& plan = found[0];
    EXPECT_TRUE(plan.notes().has(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION));
    EXPECT_TRUE(plan.notes().has(CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API));
    EXPECT_TRUE(plan.notes().has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
    EXPECT_GE(plan.workspace(), least);
    EXPECT_LE(plan.workspace(), most);
    EXPECT_EQ(from_words(to_words(plan.choice())), plan.choice());
    if (every())
      fmt::print("{:<10} {:<22} engine {:>2} {:>10} bytes\n", GetParam().file, pass, plan.choice().engine,
                 plan.workspace());
  }

  void expect_plans(const AttentionDesc& desc) {
    SCOPED_TRACE(fmt::format("{} tokens{}", desc.tokens, desc.causal ? ", causal" : ""));
    // What an engine adds to: the gradients of the queries, in f32.
    const int64_t sums = kSamples * desc.tokens * desc.width * int64_t{sizeof(float)},
                  scores = 2 * kSamples * desc.heads * desc.tokens * desc.tokens;
    expect_plan(attention_forward_graph(desc, kSamples), false, 0, 4096, "forward");
    expect_plan(attention_backward_graph(desc, kSamples, false), false, 0, 2 * sums, "backward");
    if (GetParam().deterministic)
      expect_plan(attention_backward_graph(desc, kSamples, true), true, scores, 2 * scores, "backward, deterministic");
  }

  static bool every() { return std::getenv("DDP_EVERY_ATTENTION") != nullptr; }
  static bool is_h200() { return GetParam().file == std::string("h200.json"); }

  const Target target_ = described_gpu(GetParam().file);
};

TEST_P(AttentionPlans, AreThere) {
  for (const int64_t tokens : {197, 1024})
    for (const bool causal : {false, true})
      if (every() || (causal ? tokens == 1024 : tokens == 197 && is_h200())) expect_plans(heads_of(64, tokens, causal));
  for (int64_t size = 8; every() && size <= 128; size += 8) expect_plans(heads_of(size, 65, true));
}

// No kernel is compiled where cuDNN has no engine.
TEST_P(AttentionPlans, AreNotThereForOddHeads) {
  const AttentionGraph graph = attention_forward_graph(heads_of(12, 65, false), 2);
  EXPECT_TRUE(find_plans(target_, graph_of(target_, graph), {.precision = Precision::bf16}).empty());
}

INSTANTIATE_TEST_SUITE_P(, AttentionPlans,
                         ::testing::Values(DescribedGpu{"a100.json", true}, DescribedGpu{"h200.json", true},
                                           DescribedGpu{"b200.json", false}),
                         [](const auto& tested) { return std::string(tested.param.file).substr(0, 4); });

}  // namespace
}  // namespace ddp::cudnn::testing
