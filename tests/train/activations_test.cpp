// The gradients of a step through each activation function, fused, and through adaptive pools.
#include "comm/local/communicator.h"
#include "device/cpu/device.h"
#include "nn/freeze.h"
#include "ops/cpu/ops.h"
#include "tests/ops/reference/ops.h"
#include "tests/train/fixture.h"
#include "tests/train/small.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddp::testing {
namespace {

using ActivationKind = Activation::Kind;

// Functions behind a convolution, a norm, a frozen norm, a sum and a linear layer. Unless they are fused, each is a
// layer of its own.
Network with_function(const Activation& f, const ImageShape& image, bool fused) {
  Network net("functions", image);
  const auto function = [&] {
    if (!fused) net.here();
    net.activation(f);
  };
  net.conv2d(6, 3, {.padding = 1});
  function();
  net.conv2d(16, 3, {.bias = false}).batch_norm();
  function();
  net.adaptive_avg_pool(3, 7);
  const int fork = net.here();
  net.conv2d(16, 1, {.bias = false}).named("kept").batch_norm();
  function();
  net.conv2d(16, 3, {.padding = 1}).batch_norm().add(fork);
  function();
  net.adaptive_avg_pool(3, 7).adaptive_avg_pool(2, 2).flatten().linear(20);
  function();
  return freeze(net.linear(4), std::vector<std::string>{"kept"});
}

struct OneStep {
  double loss;
  std::vector<float> gradients;
};

OneStep one_step(const Network& network, const Dataset& data, Device& device, Ops& ops) {
  const auto world = make_local_communicators(1);
  Fixture fixture({.batch_size = 5}, network, data, device, ops, *world[0]);
  const double loss = fixture.losses(0, 1)[0];
  return {loss, download_gradients(fixture.replica)};
}

TEST(Activations, OfANetworkHaveTheGradientsOfTheReference) {
  const MemoryDataset data = small_data(5);
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {}), reference = make_reference_ops(*device);
  for (int kind = static_cast<int>(ActivationKind::relu); kind <= static_cast<int>(ActivationKind::tanh); ++kind) {
    SCOPED_TRACE(name_of(static_cast<ActivationKind>(kind)));
    const Activation f{static_cast<ActivationKind>(kind), 0.2f};
    const auto step = [&](bool fused, Ops& on) {
      return one_step(with_function(f, data.image_shape(), fused), data, *device, on);
    };
    const OneStep actual = step(true, *ops), expected = step(false, *reference);
    EXPECT_LE(std::abs(actual.loss - expected.loss), 1e-5 * expected.loss);
    EXPECT_LE(distance(actual.gradients, expected.gradients), 1e-4);
  }
}

}  // namespace
}  // namespace ddp::testing
