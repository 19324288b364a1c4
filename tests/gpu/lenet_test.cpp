// Compares LeNet training on the GPU in fp32 with training on the CPU, from equal weights over the same batches.
#include "data/subset.h"
#include "nn/models.h"
#include "tests/gpu/one_rank.h"
#include "tests/gpu/training_data.h"
#include "tests/train/fixture.h"

namespace ddp::testing {
namespace {

class LenetOnGpu : public ::testing::Test {
 protected:
  const Network network = make_model("lenet", {28, 28, 1}, 10);
};

TEST_F(LenetOnGpu, GradientsOfOneStepMatchTheCpu) {
  const auto data = training_data();
  OnCpu cpu;
  OnOneGpu gpu;
  Fixture expected({.lr = 0.2}, network, *data, *cpu.device, *cpu.ops, *cpu.communicator);
  Fixture actual({.lr = 0.2}, network, *data, *gpu.device, *gpu.ops, *gpu.communicator);
  int64_t at = 0;
  for (const int64_t after : {0, 50, 200}) {
    expected.losses(at, after);
    at = after;
    const std::vector<float> weights = expected.replica.download_weights();
    expected.losses(after, after + 1);
    actual.replica.load(weights);
    const auto losses = actual.losses(after, after + 1);
    const Distance distance = gradient_distance(expected.replica.parameters, download_gradients(actual.replica),
                                                download_gradients(expected.replica));
    EXPECT_LE(distance.value, 1e-4) << distance.tensor << " after " << after << " steps";
    print_figure("gradients' error", distance.value);
    expected.replica.load(weights);
    ASSERT_EQ(losses.size(), 1u);
  }
}

// With seed 2 no ReLU input is so close to zero that rounding decides its sign.
class FreeRunningOnGpu : public LenetOnGpu {
 protected:
  static constexpr int64_t kSteps = 100;
  const Subset data{training_data(), 5000};

  std::vector<double> losses(OnOneGpu& gpu, size_t device_data_bytes = size_t{1} << 30) const {
    Fixture fixture({.seed = 2, .device_data_bytes = device_data_bytes}, network, data, *gpu.device, *gpu.ops,
                    *gpu.communicator);
    return fixture.losses(0, kSteps);
  }
};

TEST_F(FreeRunningOnGpu, HundredLossesMatchTheCpu) {
  OnCpu cpu;
  Fixture fixture({.seed = 2}, network, data, *cpu.device, *cpu.ops, *cpu.communicator);
  const std::vector<double> expected = fixture.losses(0, kSteps);
  for (const bool deterministic : {true, false}) {
    OnOneGpu gpu(true, deterministic);
    const double distance = loss_distance(losses(gpu), expected);
    EXPECT_LE(distance, 1e-5) << (deterministic ? "deterministic" : "fastest");
    print_figure("losses' error", distance);
  }
}

TEST_F(FreeRunningOnGpu, GraphsAndStreamedDataChangeNoBit) {
  OnOneGpu with_graphs, without_graphs(false);
  const std::vector<double> expected = losses(with_graphs);
  ASSERT_EQ(std::ssize(expected), kSteps);
  EXPECT_EQ(losses(with_graphs), expected) << "again";
  EXPECT_EQ(losses(with_graphs, 0), expected) << "streamed";
  EXPECT_EQ(losses(without_graphs), expected) << "without graphs";
  EXPECT_EQ(losses(without_graphs, 0), expected) << "streamed, without graphs";
}

}  // namespace
}  // namespace ddp::testing
