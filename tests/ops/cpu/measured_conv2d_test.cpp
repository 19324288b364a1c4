// The algorithms of convolutions on the CPU are measured, agreed on and used. The clock of these tests is the number of
// polls of the device, which follows from the algorithm alone.
#include "ops/cpu/measured_conv2d.h"

#include "device/cpu/device.h"
#include "ops/cpu/blocked_conv2d.h"
#include "ops/cpu/ops.h"
#include "tests/ops/backend.h"
#include "tests/test_clock.h"

#include <algorithm>
#include <chrono>
#include <set>

namespace ddp::testing {
namespace {

constexpr int64_t kSamples = 6;

class MeasuredConv2d : public ::testing::TestWithParam<Precision> {
 protected:
  MeasuredConv2d() {
    if (workers.kernels.widest_lanes < 16) return;
    device->set_poll([this] { clock.pass(std::chrono::milliseconds(1)); });
  }

  void SetUp() override {
    if (workers.kernels.widest_lanes < 16) GTEST_SKIP() << "this processor lacks AVX-512";
    if (possible().size() < 2) GTEST_SKIP() << "this processor has one algorithm of this precision";
  }

  DType type() const { return GetParam() == Precision::bf16 ? DType::bf16 : DType::f32; }

  // Without AMX, whose activations are dense.
  DnnlConfig config() const {
    return {.activations = type(), .scratch = nullptr, .amx = false, .widen = must_widen(workers, type())};
  }

  static Conv2dDesc desc() {
    return {.input = {9, 10, 64},
            .input_format = Format::blocked_channels(16),
            .out_channels = 32,
            .window = {3, 1, 1},
            .relu = true};
  }

  std::vector<ConvAlgorithm> possible() const { return conv_algorithms(workers, config(), desc(), kSamples); }

  Measuring measuring() {
    return {.seconds = seconds,
            .agree =
                [this](std::span<int64_t> numbers) {
                  agreed.emplace_back(numbers.begin(), numbers.end());
                  if (!forced.empty()) std::ranges::copy(forced, numbers.begin());
                },
            .decided = [this] { return decided; },
            .measured = [this](const MeasuredPass& pass) { measured.push_back(pass); },
            .known = known};
  }

  std::unique_ptr<Conv2d> make(ConvChooser& chooser, const Conv2dDesc& made) {
    const int64_t sizes[] = {kSamples, 2};
    return chooser.make(workers, config(), made, sizes);
  }

  // y, dx, dweight and dbias of a batch of n.
  std::vector<Values> results(Conv2d& conv, int64_t n) {
    const Conv2dDesc d = desc();
    const Shape in{n, d.input}, out{n, conv2d_output(d)};
    const Values w = random_values(9 * 64 * 32, 2), b = random_values(32, 3);
    const TensorOnDevice x(*device, in, d.input_format, type(), random_values(in.elements(), 1)),
        dy(*device, out, conv.output_format(), type(), random_values(out.elements(), 4)),
        y(*device, out, conv.output_format(), type()), dx(*device, in, d.input_format, type()),
        other(*device, out, conv.output_format(), type(), random_values(out.elements(), 5));  // rounding moves no zero
    Values dw(w.size()), db(b.size());
    conv.bind({w.data()}, {b.data()});
    conv.forward(x.tensor(), y.tensor());
    conv.backward_weight(x.tensor(), other.tensor(), dy.tensor(), dw.data(), db.data(), Gradient::overwrite);
    conv.backward_input(dy.tensor(), dx.tensor());
    return {y.values(), dx.values(), dw, db};
  }

  TestClock clock;
  double seconds = 1e6;
  bool decided = false;
  std::map<std::string, std::vector<int64_t>> known;
  std::vector<int64_t> forced;
  std::vector<std::vector<int64_t>> agreed;
  std::vector<MeasuredPass> measured;
  const std::unique_ptr<Device> device = make_cpu_device();
  const Workers workers{*device, 1};
};

INSTANTIATE_TEST_SUITE_P(, MeasuredConv2d, ::testing::Values(Precision::fp32, Precision::bf16),
                         [](const auto& tested) { return tested.param == Precision::fp32 ? "f32" : "bf16"; });

TEST_P(MeasuredConv2d, TakesTheFastestOfEachPass) {
  ConvChooser chooser(measuring());
  make(chooser, desc());
  ASSERT_EQ(agreed.size(), 1u);
  ASSERT_EQ(measured.size(), 3u);
  EXPECT_EQ(measured[0].name,
            "forward pass of 6 images of 9x10x64 to 32, 3x3, stride 1, padding 1,1,1,1, bias, ReLU, blocked");
  for (size_t pass = 0; pass < 3; ++pass) {
    const auto& algorithms = measured[pass].algorithms;
    EXPECT_TRUE(std::ranges::is_sorted(algorithms, {}, &MeasuredPass::Algorithm::microseconds));
    ASSERT_GE(algorithms.size(), 2u);
    EXPECT_LT(algorithms.front().microseconds, algorithms.back().microseconds);
    // The default stays where it is nearly as fast.
    const int64_t chosen = agreed[0][pass], first = possible()[0].number();
    EXPECT_EQ(measured[pass].fastest, std::vector<int64_t>{chosen});
    EXPECT_TRUE(chosen == first || chosen == algorithms.front().number);
    const auto its = std::ranges::find(algorithms, chosen, &MeasuredPass::Algorithm::number);
    ASSERT_NE(its, algorithms.end());
    EXPECT_LE(its->microseconds, 1.05 * algorithms.front().microseconds);
    std::set<int64_t> numbers;
    for (const auto& algorithm : algorithms) EXPECT_TRUE(numbers.insert(algorithm.number).second);
    EXPECT_EQ(numbers.contains(first), true);
  }
  // Weight gradients have the algorithm without transforms too.
  EXPECT_GT(measured[1].algorithms.size(), measured[0].algorithms.size());
}

TEST_P(MeasuredConv2d, MeasuresEqualConvolutionsOnce) {
  ConvChooser chooser(measuring());
  make(chooser, desc());
  make(chooser, desc());
  EXPECT_EQ(measured.size(), 3u);
  ASSERT_EQ(agreed.size(), 2u);
  EXPECT_EQ(agreed[0], agreed[1]);
  for (const MeasuredPass& pass : measured) known[pass.name] = pass.fastest;
  ConvChooser other(measuring());
  make(other, desc());
  EXPECT_EQ(measured.size(), 3u);
  EXPECT_EQ(agreed[2], agreed[0]);
}

TEST_P(MeasuredConv2d, MeasuresNothingWithoutNeed) {
  Conv2dDesc inference = desc();
  inference.weight_gradient = inference.bias_gradient = inference.input_gradient = false;
  ConvChooser chooser(measuring());
  make(chooser, inference);
  EXPECT_TRUE(agreed.empty());  // all ranks know that
  decided = true;
  make(chooser, desc());
  decided = false;
  seconds = 0;
  ConvChooser fixed(measuring());
  make(fixed, desc());
  EXPECT_TRUE(measured.empty());
  EXPECT_EQ(agreed, (std::vector<std::vector<int64_t>>(2, {0, 0, 0})));
}

TEST_P(MeasuredConv2d, StopsWhenTheTimeIsUp) {
  seconds = 1e-9;
  ConvChooser chooser(measuring());
  make(chooser, desc());
  EXPECT_EQ(measured.size(), 1u);  // the first pass
}

// Each combination of algorithms has the results of the default, for both sizes, and slices of a batch.
TEST_P(MeasuredConv2d, HasEqualResultsByAllAlgorithms) {
  ConvChooser fixed({.seconds = 0});
  const auto plain = make(fixed, desc());
  const auto six = results(*plain, kSamples), two = results(*plain, 2);
  const auto expect_near = [](const std::vector<Values>& actual, const std::vector<Values>& expected, double bound) {
    for (const size_t result : {0, 1, 2, 3})
      EXPECT_TRUE(within(result == 2 ? std::max(bound, 1e-5) : bound, deviation(actual[result], expected[result])))
          << result;
  };
  const double bound = type() == DType::bf16 ? 2e-2 : 1e-5;
  for (const ConvAlgorithm& forward : possible())
    for (const ConvAlgorithm& weights : possible())
      for (const ConvAlgorithm& data : possible()) {
        forced = {forward.number(), weights.number(), data.number()};
        SCOPED_TRACE(fmt::format("{}", fmt::join(forced, " ")));
        seconds = 0;
        ConvChooser chooser(measuring());
        const auto conv = make(chooser, desc());
        ASSERT_EQ(conv->output_format(), plain->output_format());
        expect_near(results(*conv, kSamples), six, bound);
        expect_near(results(*conv, 2), two, bound);
      }
}

// Another rank or an edited file may name an algorithm that this rank lacks.
TEST_P(MeasuredConv2d, HasTheDefaultForUnknownNumbers) {
  ConvChooser fixed({.seconds = 0});
  const auto expected = results(*make(fixed, desc()), kSamples);
  for (const int64_t number : {int64_t{-1}, int64_t{7}, int64_t{1} << 60, type() == DType::f32 ? int64_t{4} : -5}) {
    forced = {number, number, number};
    ConvChooser chooser(measuring());
    const auto actual = results(*make(chooser, desc()), kSamples);
    for (const size_t result : {0, 1, 2, 3}) EXPECT_TRUE(actual[result] == expected[result]) << number;
  }
}

// 1: oneDNN's kernels; 2: our weight gradients; 3: all passes ours; 4 to 6: the same from factors in f32.
std::vector<ConvAlgorithm> algorithms_of(std::initializer_list<int64_t> numbers) {
  std::vector<ConvAlgorithm> found;
  for (const int64_t number : numbers) found.push_back(*ConvAlgorithm::of(number));
  return found;
}

TEST(FactorTimes, GuessFactorsThatWereMuchFaster) {
  const auto ours = algorithms_of({3, 2, 1, 6, 5, 4}), of_onednn = algorithms_of({2, 1, 5, 4});
  FactorTimes times;
  EXPECT_EQ(times.guess(ours), 0);
  times.add({"a", {{6, 100}, {3, 149}, {2, 200}}});  // nothing of oneDNN's outputs from f32
  EXPECT_EQ(times.guess(ours), 0);
  times.add({"b", {{6, 100}, {3, 152}}});  // 1.505 times in all
  EXPECT_EQ(times.faster(), (FasterFactors{std::nullopt, true}));
  EXPECT_EQ(times.guess(ours), 6);
  EXPECT_EQ(times.guess(of_onednn), 0);
  EXPECT_EQ(times.guess(algorithms_of({3, 2, 1})), 0);  // no f32 here
  EXPECT_EQ(times.guess({}), 0);

  times.add({"c", {{2, 90}, {1, 95}, {4, 100, true}, {5, 200}}});  // a cold run does not count
  EXPECT_EQ(times.faster(), (FasterFactors{false, true}));
  EXPECT_EQ(times.guess(of_onednn), 2);
  EXPECT_EQ(times.guess(algorithms_of({5, 4, 2, 1})), 2);
  EXPECT_EQ(times.guess(ours), 6);
}

TEST(ConvAlgorithm, HasANumber) {
  for (int64_t number = 1; number <= 6; ++number) EXPECT_EQ(ConvAlgorithm::of(number)->number(), number);
  EXPECT_EQ(ConvAlgorithm::of(0), ConvAlgorithm{});
  EXPECT_EQ(ConvAlgorithm{}.number(), 0);
  EXPECT_FALSE(ConvAlgorithm::of(-1) || ConvAlgorithm::of(7));
}

}  // namespace
}  // namespace ddp::testing
