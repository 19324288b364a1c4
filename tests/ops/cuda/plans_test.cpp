// Every convolution of every model has cuDNN plans on an H200 that obey the rules of its precision. The tests query
// cuDNN with a description of the GPU, so they need neither GPU nor driver. DDP_VERBOSE=1 prints the plans.
#include "core/error.h"
#include "nn/models.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/cudnn_plan.h"
#include "tests/ops/cuda/convolutions.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace ddp::cudnn {
namespace {

using testing::Convolution;
using testing::h200;

constexpr int64_t kBatchSizes[] = {1, 256};

// Asymmetric padding, with and without a bias.
Network asymmetric() {
  Network net("asymmetric", {28, 28, 3});
  net.conv2d(24, 3, {.stride = 2, .same = true});
  net.conv2d(32, 5, {.stride = 2, .same = true, .bias = false}).relu();
  net.conv2d(64, 2, {.same = true, .bias = false});
  net.conv2d(17, 3, {.padding = {0, 1, 2, 0}}).relu();
  return net;
}

// Depthwise, grouped and dilated, as in networks, and then with the groups and dilations of the tests of convolutions.
Network grouped() {
  Network net("grouped", {56, 56, 3});
  net.conv2d(24, 3, {.stride = 2, .padding = 1, .bias = false}).batch_norm().relu();
  net.conv2d(24, 3, {.padding = 1, .bias = false, .groups = 24}).batch_norm().relu();
  net.conv2d(96, 5, {.stride = 2, .padding = 2, .groups = 24});
  net.conv2d(96, 7, {.padding = 3, .groups = 96});
  net.conv2d(128, 3, {.padding = 1, .bias = false, .groups = 32}).batch_norm().relu();
  net.conv2d(64, 3, {.padding = 2, .dilation = 2}).relu();
  net.conv2d(3, 1).conv2d(3, 3, {.padding = 1, .groups = 3});
  net.conv2d(17, 1).conv2d(17, 7, {.padding = 3, .groups = 17});
  net.conv2d(12, 1).conv2d(24, 1, {.groups = 3});
  net.conv2d(8, 1).conv2d(16, 3, {.padding = 1, .groups = 8});
  net.conv2d(32, 1).conv2d(16, 3, {.padding = 2, .groups = 4, .dilation = 2});
  net.conv2d(17, 1).conv2d(17, 5, {.stride = 2, .padding = 4, .groups = 17, .dilation = 2});
  net.conv2d(32, 1).conv2d(32, 3, {.padding = 1, .groups = 8});
  net.conv2d(64, 3, {.stride = 2, .padding = 1, .bias = false, .groups = 4});
  net.conv2d(24, 1).conv2d(24, 3, {.padding = 2, .groups = 24, .dilation = 2});
  net.conv2d(24, 3, {.stride = 2, .padding = 3, .groups = 24, .dilation = 3});
  net.conv2d(24, 1, {.stride = 2, .groups = 24});
  return net;
}

std::vector<Convolution> convolutions_of(const std::string& model) {
  if (model == "asymmetric") return testing::convolutions_of(asymmetric());
  if (model == "grouped") return testing::convolutions_of(grouped());
  return testing::convolutions_of(model);
}

Convolution resnet18_convolution() { return convolutions_of("resnet18")[1]; }
Convolution lenet_convolution() { return convolutions_of("lenet")[1]; }

std::vector<std::string> models_with_convolutions() {
  std::vector<std::string> names{"asymmetric", "grouped"};
  for (const ModelFile& model : built_in_models()) {
    // Their two hundred convolutions are of the kinds of mobilenet_v3_small and torchvision-resnet50.
    const bool similar = model.name == "densenet121" || model.name == "efficientnet_b0";
    if (!similar && !begins_with_embedding(model, model.name) && !convolutions_of(model.name).empty())
      names.push_back(model.name);
  }
  return names;
}

struct Kind {
  const char* name;
  Pass pass;
  bool add;
};

// The passes that the op plans. In bf16 the op adds gradients outside cuDNN.
std::vector<Kind> kinds(const Conv2dDesc& desc, Precision precision) {
  std::vector<Kind> needed{{"forward", Pass::forward, false}, {"weights", Pass::weight_gradient, false}};
  if (precision != Precision::bf16) needed.push_back({"weights+", Pass::weight_gradient, true});
  if (desc.input_gradient) needed.push_back({"input", Pass::input_gradient, false});
  return needed;
}

std::string text(const Notes& notes) {
  std::string marks;
  if (notes.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)) marks += " tensor-cores";
  if (notes.has(CUDNN_NUMERICAL_NOTE_WINOGRAD)) marks += " winograd";
  if (notes.has(CUDNN_NUMERICAL_NOTE_FFT)) marks += " fft";
  if (notes.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) marks += " nondeterministic";
  if (notes.has(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION)) marks += " compiled-at-run-time";
  return marks;
}

// Independent of admissible(), which it checks.
void expect_rules_obeyed(const Plan& plan, const Rules& rules) {
  EXPECT_GE(plan.workspace(), 0);
  EXPECT_LE(plan.workspace(), 64 << 20);
  EXPECT_FALSE(plan.notes().has(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION));
  EXPECT_FALSE(plan.notes().has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION));
  const bool fp32 = rules.precision == Precision::fp32;
  EXPECT_FALSE(fp32 && plan.notes().has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
  EXPECT_FALSE(fp32 && plan.notes().has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
  EXPECT_FALSE(rules.deterministic && plan.notes().has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
}

bool on_tensor_cores(const Plan& plan) { return plan.notes().has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE); }

// Chooses one plan at the largest batch size for all batch sizes, as the op does, but without timing.
void expect_plans(const Target& target, const Convolution& conv, const Kind& kind, const char* precision_name,
                  const Rules& rules) {
  const DType type = rules.precision == Precision::bf16 ? DType::bf16 : DType::f32;
  const Graph largest = conv_graph(target, conv.desc, *std::ranges::max_element(kBatchSizes), type, kind.pass);
  const std::vector<Plan> found = find_plans(target, largest, rules);
  ASSERT_FALSE(found.empty());
  for (const Plan& plan : found) expect_rules_obeyed(plan, rules);
  for (const int64_t n : kBatchSizes) {
    SCOPED_TRACE(fmt::format("{} samples", n));
    const Graph graph = conv_graph(target, conv.desc, n, type, kind.pass, kind.add);
    const auto plan = make_plan(target, graph, rules, found.front().choice());
    ASSERT_TRUE(plan);
    expect_rules_obeyed(*plan, rules);
    if (std::getenv("DDP_VERBOSE"))
      fmt::print("{:<60} {:<4}{:<2} {:<8} {:>4} engine {:>3}{} {:>9} bytes{}\n", conv.name, precision_name,
                 rules.deterministic ? " d" : "", kind.name, n, plan->choice().engine,
                 plan->choice() == found.front().choice() ? " " : "*", plan->workspace(), text(plan->notes()));
  }
}

// Holds for any largest batch size and does not depend on cuDNN's own order of plans.
TEST(Models, PlansIncludeTensorCores) {
  const Target target = h200();
  for (const Convolution& conv : convolutions_of("resnet18"))
    for (const Precision precision : {Precision::tf32, Precision::bf16})
      for (const Kind& kind : kinds(conv.desc, precision))
        for (const int64_t n : {32, 256}) {
          if (conv.desc.input.c % 8 != 0) continue;
          SCOPED_TRACE(fmt::format("{} {} {} samples", conv.name, kind.name, n));
          const DType type = precision == Precision::bf16 ? DType::bf16 : DType::f32;
          const Graph graph = conv_graph(target, conv.desc, n, type, kind.pass, kind.add);
          EXPECT_TRUE(std::ranges::any_of(find_plans(target, graph, {precision, false}), on_tensor_cores));
        }
}

class EveryConvolution : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryConvolution, HasPlans) {
  const Target target = h200();
  for (const Convolution& conv : convolutions_of(GetParam()))
    for (const auto& [name, precision] :
         {std::pair{"fp32", Precision::fp32}, {"tf32", Precision::tf32}, {"bf16", Precision::bf16}})
      for (const bool deterministic : {false, true})
        for (const Kind& kind : kinds(conv.desc, precision)) {
          SCOPED_TRACE(fmt::format("{} {} {}{}", conv.name, name, kind.name, deterministic ? ", deterministic" : ""));
          expect_plans(target, conv, kind, name, {precision, deterministic});
        }
}

INSTANTIATE_TEST_SUITE_P(, EveryConvolution, ::testing::ValuesIn(models_with_convolutions()), [](const auto& model) {
  std::string name = model.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(Models, ConvolutionsAreFoundWithTheirShapes) {
  const std::vector<Convolution> lenet = convolutions_of("lenet"), resnet18 = convolutions_of("resnet18"),
                                 asymmetric = convolutions_of("asymmetric");
  ASSERT_EQ(lenet.size(), 2u);
  EXPECT_EQ(lenet[0].desc.input, (ImageShape{26, 26, 1}));
  EXPECT_FALSE(lenet[0].desc.input_gradient);
  EXPECT_EQ(lenet[1].desc.input, (ImageShape{12, 12, 20}));
  EXPECT_TRUE(lenet[1].desc.relu && lenet[1].desc.input_gradient);
  EXPECT_EQ(resnet18.size(), 11u);  // stem: 1, first stage: 1, each of the three other stages: 3
  ASSERT_EQ(asymmetric.size(), 4u);
  EXPECT_EQ(asymmetric[0].desc.window.padding, (Padding{0, 0, 1, 1}));
  EXPECT_FALSE(asymmetric[2].desc.bias);
  const std::vector<Convolution> grouped = convolutions_of("grouped");
  ASSERT_EQ(grouped.size(), 25u);
  EXPECT_EQ(grouped[1].desc.groups, 24);
  EXPECT_EQ(grouped[5].desc.window.dilation, 2);
}

// fp32 and tf32 have the same graph; only the precision rule selects different engines.
TEST(Rules, PrecisionDecidesTheEngine) {
  const Target target = h200();
  const Graph graph = conv_graph(target, resnet18_convolution().desc, 128, DType::f32, Pass::forward);
  const auto tf32 = find_plans(target, graph, {Precision::tf32, false}, 1);
  const auto fp32 = find_plans(target, graph, {Precision::fp32, false}, 1);
  ASSERT_TRUE(!tf32.empty() && !fp32.empty());
  EXPECT_TRUE(on_tensor_cores(tf32[0]));
  EXPECT_FALSE(on_tensor_cores(fp32[0]));
}

TEST(Rules, WorkspaceIsBounded) {
  const Target target = h200();
  const Graph graph = conv_graph(target, resnet18_convolution().desc, 256, DType::f32, Pass::weight_gradient);
  for (const int64_t bound : {int64_t{1} << 30, int64_t{64} << 20, int64_t{1} << 20})
    for (const Plan& plan : find_plans(target, graph, {Precision::tf32, false, bound}, 100))
      EXPECT_LE(plan.workspace(), bound);
  EXPECT_TRUE(find_plans(target, graph, {Precision::tf32, false, -1}, 100).empty());
  EXPECT_EQ(make_plan(target, graph, {Precision::tf32, false, -1}, {}), std::nullopt);
}

TEST(Rules, NotesExcludePlans) {
  const auto allows = [](Notes notes, Rules rules, bool compiling = false) {
    return admissible(notes, rules, compiling);
  };
  const Rules fp32{Precision::fp32, false}, tf32{Precision::tf32, false}, bf16{Precision::bf16, false};
  for (const Rules& rules : {fp32, tf32, bf16}) {
    EXPECT_TRUE(allows({}, rules));
    EXPECT_TRUE(allows({{CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, {}}, rules));
    EXPECT_FALSE(allows({{CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, {}}, {rules.precision, true}));
    EXPECT_FALSE(allows({{CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION}, {}}, rules));
    EXPECT_FALSE(allows({{}, {CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION}}, rules));
    EXPECT_TRUE(allows({{}, {CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION}}, rules, true));
  }
  for (const auto note : {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}) {
    EXPECT_FALSE(allows({{note}, {}}, fp32));
    EXPECT_TRUE(allows({{note}, {}}, tf32));
    EXPECT_TRUE(allows({{note}, {}}, bf16));
  }
}

TEST(PlanChoice, RoundTripsAsWordsAndAsAList) {
  Choice full{7, {}};
  for (int64_t knob = 0; knob < CUDNN_KNOB_TYPE_COUNTS; ++knob) full.knobs.push_back({knob, -knob});
  for (const Choice& choice : {Choice{}, Choice{0, {}}, Choice{51, {{2, 16}, {12, -1}}}, full}) {
    EXPECT_EQ(from_words(to_words(choice)), choice);
    EXPECT_EQ(from_list(to_list(choice)), choice);
  }
  EXPECT_TRUE(from_words(to_words({})).none());

  full.knobs.push_back({0, 0});
  EXPECT_THROW(to_words(full), Error);
  for (const std::vector<int64_t>& list : {to_list(full), {}, {5, 1}}) EXPECT_TRUE(from_list(list).none());
  ChoiceWords words = to_words({});
  words[1] = CUDNN_KNOB_TYPE_COUNTS + 1;
  EXPECT_THROW(from_words(words), Error);
}

TEST(PlanChoice, ReproducesThePlan) {
  const Target target = h200();
  const Graph graph = conv_graph(target, lenet_convolution().desc, 256, DType::f32, Pass::weight_gradient);
  const std::vector<Plan> found = find_plans(target, graph, {}, 100);
  ASSERT_GT(found.size(), 5u);
  for (const Plan& plan : found) {
    const auto again = Plan::make(target, graph, from_words(to_words(plan.choice())));
    ASSERT_TRUE(again);
    EXPECT_EQ(again->choice(), plan.choice());
    EXPECT_EQ(again->workspace(), plan.workspace());
  }
}

TEST(PlanChoice, FallsBackToTheRecommendedPlan) {
  const Target target = h200();
  const Graph graph = conv_graph(target, lenet_convolution().desc, 32, DType::f32, Pass::forward);
  const Rules rules{Precision::fp32, false};
  const auto recommended = find_plans(target, graph, rules, 1);
  const auto forbidden = find_plans(target, graph, {Precision::tf32, false}, 1);
  ASSERT_TRUE(!recommended.empty() && !forbidden.empty() && on_tensor_cores(forbidden[0]));
  for (const Choice& choice :
       {Choice{}, Choice{100000, {}}, Choice{recommended[0].choice().engine, {{2, 100000}}}, forbidden[0].choice()}) {
    const auto plan = make_plan(target, graph, rules, choice);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->choice(), recommended[0].choice());
  }
}

// A program that links cuBLASLt takes 50 ms and 200 MB more at each start.
TEST(CublasLt, IsLoadedAtItsFirstCall) {
  const auto loaded = [] {
    std::ifstream maps("/proc/self/maps");
    return std::string(std::istreambuf_iterator<char>(maps), {}).find("libcublasLt") != std::string::npos;
  };
  EXPECT_FALSE(loaded());
  const std::string version = fmt::format("cuBLASLt {}.", CUDART_VERSION / 1000);
  EXPECT_EQ(describe_cublas().substr(0, version.size()), version);
  EXPECT_TRUE(loaded());
}

}  // namespace
}  // namespace ddp::cudnn
