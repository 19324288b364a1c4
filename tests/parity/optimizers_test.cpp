// Compares twenty steps of each optimizer with PyTorch. make_optimizers.py describes the figures in
// expected/optimizers.json.
#include "comm/local/communicator.h"
#include "data/catalog.h"
#include "nn/models.h"
#include "tests/parity/parity.h"
#include "tests/train/fixture.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddp::testing {
namespace {

using nlohmann::json;

ReplicaConfig config_of(const json& options) {
  const std::string name = options.at("optimizer");
  const auto number = [&](const char* key, double otherwise) {
    return static_cast<float>(options.value(key, otherwise));
  };
  OptimizerDesc optimizer{.kind = name == "sgd"    ? OptimizerDesc::Kind::sgd
                                  : name == "lars" ? OptimizerDesc::Kind::lars
                                                   : OptimizerDesc::Kind::adam,
                          .momentum = number("momentum", 0),
                          .nesterov = options.value("nesterov", false),
                          .epsilon = number("eps", 1e-8),
                          .weight_decay = number("weight_decay", 0),
                          .decoupled = name == "adamw",
                          .trust = number("trust", 0.001)};
  if (options.contains("betas")) {
    optimizer.beta1 = options.at("betas")[0].get<float>();
    optimizer.beta2 = options.at("betas")[1].get<float>();
  }
  std::vector<ParameterGroup> groups;
  for (const json& given : options.value("groups", json::array())) {
    ParameterGroup& group = groups.emplace_back(ParameterGroup{.match = given.at("match").get<std::string>() + "*"});
    if (given.contains("lr")) group.rate = given.at("lr").get<double>() / options.at("lr").get<double>();
    if (given.contains("weight_decay")) group.weight_decay = given.at("weight_decay").get<double>();
    if (given.contains("momentum")) group.momentum = given.at("momentum").get<double>();
  }
  return {.optimizer = optimizer,
          .all_decay = options.value("decay_biases", true) && name != "lars",
          .groups = groups,
          .max_grad_norm = options.value("clip_grad_norm", 0.0),
          .label_smoothing = number("label_smoothing", 0)};
}

TEST(Optimizers, TwentyStepsMatchPytorch) {
  const auto data = open_datasets("fashion-mnist", "").train;
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {});
  const json figures = expected_figures("optimizers.json");
  ASSERT_GE(figures.at("runs").size(), 17u);
  for (const json& run : figures.at("runs")) {
    const json& options = run.at("options");
    const int64_t batch = run.at("batch_size");
    const std::string model = run.at("network"), what = model + " " + options.dump();
    const Network network = without_dropout(make_model(model, {28, 28, 1}, 10));
    const ParityOrder order(*data, 0, 20 * batch);
    const auto world = make_local_communicators(1);
    Fixture fixture(
        {.batch_size = batch, .lr = options.at("lr"), .order = Order::sequential, .replica = config_of(options)},
        network, order, *device, *ops, *world[0]);
    Replica& r = fixture.replica;
    const std::vector<float> before = parity_weights(r.parameters, run.at("tensors"), 0);
    r.load(before);
    const double losses = loss_distance(fixture.losses(0, 20), run.at("losses").get<std::vector<double>>());
    EXPECT_LE(losses, 1e-5) << what;

    std::vector<float> change = r.download_weights();
    for (size_t i = 0; i < change.size(); ++i) change[i] -= before[i];
    double worst = 0;
    for (const Parameter& p : r.parameters) {
      if (!run.at("changes").contains(p.name)) continue;
      const json& tensor = run.at("changes").at(p.name);
      const double distance = projected_distance(to_pytorch(p, change), tensor.at("tensor"), tensor.at("projections"));
      worst = worse(worst, distance / tensor.at("norm").get<double>());
    }
    EXPECT_LE(worst, run.at("tolerances").at("changes").get<double>()) << what;
    std::printf("%s: losses within %.1e, changes of weights within %.1e\n", what.c_str(), losses, worst);
  }
}

}  // namespace
}  // namespace ddp::testing
