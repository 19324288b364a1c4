// Compares networks with batch norms on the GPU in fp32 with the CPU, from equal weights, over the same batches and
// with the same dropout.
#include "data/subset.h"
#include "nn/models.h"
#include "tests/gpu/one_rank.h"
#include "tests/gpu/training_data.h"
#include "tests/parity/centre.h"
#include "tests/train/fixture.h"
#include "train/evaluation/evaluation.h"

namespace ddp::testing {
namespace {

struct Case {
  const char* model;
  int64_t batch;
};

void PrintTo(const Case& tested, std::ostream* out) { *out << tested.model; }

class NetworksOnGpu : public ::testing::TestWithParam<Case> {};

// The norms' shifts are far above zero, so no ReLU input behind a norm is so close to zero that rounding decides its
// sign.
std::vector<float> open_weights(const Replica& replica) {
  std::vector<float> weights = replica.download_weights();
  for (const Parameter& p : replica.parameters)
    if (p.role == Parameter::Role::norm_shift) std::fill_n(weights.begin() + p.offset, p.count, 8.0f);
  return weights;
}

struct Outcome {
  SixSteps steps;
  std::vector<float> state;
  double evaluation;
};

Outcome outcome_of(Fixture& fixture, const Dataset& first_batch) {
  Replica& r = fixture.replica;
  Outcome outcome{.steps = six_steps(fixture, 0), .state = r.download_stats(r.running_stats()), .evaluation = 0};
  const DistributedSampler sequential(first_batch.size(), first_batch.size(), Order::sequential, 0, 0, {1.0});
  DeviceDataset data(r.device, first_batch, first_batch.size(), {.device_bytes = size_t{1} << 30});
  Evaluator evaluator(r, data, sequential);
  outcome.evaluation = evaluate_all(evaluator).loss;
  return outcome;
}

TEST_P(NetworksOnGpu, SixStepsMatchTheCpu) {
  const auto [model, batch] = GetParam();
  const auto data = training_data();
  const Subset first_batch(*data, batch);
  const Network network = make_model(model, {28, 28, 1}, 10);
  const FixtureConfig config{.batch_size = batch, .lr = 1e-5, .order = Order::sequential, .replica = {.seed = 5}};
  OnCpu cpu;
  OnOneGpu gpu;
  Fixture on_cpu(config, network, *data, *cpu.device, *cpu.ops, *cpu.communicator);
  Fixture on_gpu(config, network, *data, *gpu.device, *gpu.ops, *gpu.communicator);
  on_cpu.replica.load(open_weights(on_cpu.replica));
  centre_statistics(on_cpu.replica, first_batch, batch);
  on_gpu.replica.load(on_cpu.replica.download_weights());
  on_gpu.replica.load_running_stats(on_cpu.replica.download_stats(on_cpu.replica.running_stats()));

  const Outcome expected = outcome_of(on_cpu, first_batch), actual = outcome_of(on_gpu, first_batch);
  const Distance gradients =
      gradient_distance(on_cpu.replica.parameters, actual.steps.gradients, expected.steps.gradients);
  const double losses = loss_distance(actual.steps.losses, expected.steps.losses);
  const Distance state = stats_distance(on_cpu.replica.batch_norms, actual.state, expected.state);
  EXPECT_LE(gradients.value, 1e-4) << gradients.tensor;
  EXPECT_LE(losses, 1e-5);
  EXPECT_LE(state.value, 1e-5) << state.tensor;
  EXPECT_NEAR(actual.evaluation, expected.evaluation, 1e-5 * expected.evaluation);
  print_figure("gradients' error", gradients.value);
  print_figure("losses' error", losses);
  print_figure("statistics' error", state.value);
}

constexpr Case kCases[] = {{"keras-convnet", 32}, {"resnet18", 8}};
INSTANTIATE_TEST_SUITE_P(, NetworksOnGpu, ::testing::ValuesIn(kCases), [](const auto& tested) {
  std::string name = tested.param.model;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace ddp::testing
