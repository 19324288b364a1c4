// Compares training on mixed and erased images, and with weights of labels, with PyTorch and torchvision. make_mix.py
// describes the figures in expected/mix.json.
#include "comm/local/communicator.h"
#include "data/catalog.h"
#include "nn/models.h"
#include "tests/parity/parity.h"
#include "tests/train/fixture.h"

#include <gtest/gtest.h>

namespace ddp::testing {
namespace {

using nlohmann::json;

ReplicaConfig config_of(const json& options, uint64_t seed) {
  return {.label_smoothing = options.value("label_smoothing", 0.0f),
          .mix = {options.value("mixup_alpha", 0.0), options.value("cutmix_alpha", 0.0)},
          .class_weights = options.value("label_weights", std::vector<float>()),
          .seed = seed,
          .augmentation = {.erase = options.value("random_erase", 0.0f)}};
}

TEST(MixParity, StepsMatchTorchvision) {
  const auto data = open_datasets("fashion-mnist", "").train;
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {});
  const json figures = expected_figures("mix.json");
  const uint64_t seed = figures.at("seed");
  const Network network = make_model("mlp", {28, 28, 1}, 10);
  int64_t mixups = 0, boxes = 0;
  ASSERT_GE(figures.at("runs").size(), 4u);
  for (const json& run : figures.at("runs")) {
    const json& options = run.at("options");
    const std::string what = options.dump();
    const ReplicaConfig config = config_of(options, seed);
    int64_t step = 0;
    for (const json& expected : run.at("draws")) {
      const BatchMix mix = draw_mix(config.mix, seed, 0, step++, {28, 28, 1});
      EXPECT_NEAR(mix.lambda, expected.at("lambda").get<double>(), 1e-7) << what;
      EXPECT_EQ(json({mix.top, mix.left, mix.bottom, mix.right}), expected.at("box")) << what;
      ++(mix.cuts() ? boxes : mixups);
    }
    const ParityOrder order(*data, 0, run.at("samples"));
    const auto world = make_local_communicators(1);
    Fixture fixture(
        {.batch_size = run.at("batch_size"), .lr = figures.at("lr"), .order = Order::sequential, .replica = config},
        network, order, *device, *ops, *world[0]);
    Replica& r = fixture.replica;
    const std::vector<float> before = parity_weights(r.parameters, run.at("tensors"), 0);
    r.load(before);
    const auto expected = run.at("losses").get<std::vector<double>>();
    const double losses = loss_distance(fixture.losses(0, std::ssize(expected)), expected);
    EXPECT_LE(losses, 1e-6) << what;

    std::vector<float> change = r.download_weights();
    for (size_t i = 0; i < change.size(); ++i) change[i] -= before[i];
    double worst = 0;
    for (const Parameter& p : r.parameters) {
      const json& tensor = run.at("changes").at(p.name);
      const double distance = projected_distance(to_pytorch(p, change), tensor.at("tensor"), tensor.at("projections"));
      worst = worse(worst, distance / tensor.at("norm").get<double>());
    }
    EXPECT_LE(worst, 1e-5) << what;
    std::printf("%s: losses within %.1e, changes of weights within %.1e\n", what.c_str(), losses, worst);
  }
  EXPECT_GE(mixups, 5);
  EXPECT_GE(boxes, 5);
}

}  // namespace
}  // namespace ddp::testing
