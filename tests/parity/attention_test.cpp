// Compares group norm, layer norm and attention, in a network, with PyTorch's modules. make_attention.py describes the
// figures in expected/attention.json.
#include "comm/local/communicator.h"
#include "data/catalog.h"
#include "nn/freeze.h"
#include "tests/parity/parity.h"
#include "tests/train/fixture.h"

#include <gtest/gtest.h>

namespace ddp::testing {
namespace {

using nlohmann::json;

Network attention_network() {
  Network network("attention", {28, 28, 1});
  network.named("patches").conv2d(24, 7, {.stride = 7}).named("group_norm").group_norm(4).tokens();
  network.named("norm1").layer_norm(1e-6f).named("full").attention(3).named("causal").attention(2, true);
  network.named("norm2").layer_norm().global_avg_pool().flatten().named("head").linear(10);
  return network;
}

TEST(AttentionParity, GradientsAndLossesMatchPyTorch) {
  const auto data = open_datasets("fashion-mnist", "").train;
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {});
  const json figures = expected_figures("attention.json");
  const int64_t batch = figures.at("batch_size");
  const ParityOrder order(*data, 0, 5 * batch);
  const auto world = make_local_communicators(1);
  // A frozen parameter changes no other gradient.
  for (const std::vector<std::string>& frozen : {std::vector<std::string>{}, {"norm1.weight", "norm2.bias"}}) {
    Fixture fixture({.batch_size = batch, .lr = figures.at("lr"), .order = Order::sequential},
                    freeze(attention_network(), frozen), order, *device, *ops, *world[0]);
    Replica& r = fixture.replica;
    r.load(parity_weights(r.parameters, figures.at("tensors"), 0));
    std::vector<double> losses = fixture.losses(0, 1);
    const std::vector<float> gradients = download_gradients(r);
    double worst = 0;
    for (const Parameter& p : trained_of(r.parameters)) {
      const json& tensor = figures.at("gradients").at(p.name);
      const double distance =
          projected_distance(to_pytorch(p, gradients), tensor.at("tensor"), tensor.at("projections"));
      worst = worse(worst, distance / tensor.at("norm").get<double>());
      EXPECT_LE(distance, 1e-5 * tensor.at("norm").get<double>()) << p.name;
    }
    EXPECT_EQ(trained_of(r.parameters).size(), figures.at("tensors").size() - frozen.size());
    std::printf("%zu frozen: gradients within %.1e\n", frozen.size(), worst);
    if (!frozen.empty()) continue;
    const auto next = fixture.losses(1, 5);
    losses.insert(losses.end(), next.begin(), next.end());
    const double distance = loss_distance(losses, figures.at("losses").get<std::vector<double>>());
    EXPECT_LE(distance, 1e-6);
    std::printf("losses within %.1e\n", distance);
  }
}

}  // namespace
}  // namespace ddp::testing
