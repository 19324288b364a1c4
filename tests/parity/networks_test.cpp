// Compares networks with PyTorch: gradients, running statistics and losses from equal weights. make_networks.py
// describes the figures in expected/networks.
#include "comm/local/communicator.h"
#include "data/catalog.h"
#include "nn/freeze.h"
#include "nn/models.h"
#include "tests/parity/centre.h"
#include "tests/parity/parity.h"
#include "tests/train/fixture.h"
#include "train/evaluation/evaluation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace ddp::testing {
namespace {

using nlohmann::json;

struct Worst {
  Distance relative;  // of a tensor
  double zero = 0;    // largest norm of a gradient that should be zero, over the norm of all gradients
};

Worst gradient_distance(const json& state, std::span<const Parameter> parameters, std::span<const float> gradients) {
  const double whole = state.at("gradient_norm");
  Worst worst;
  for (const Parameter& p : trained_of(parameters)) {
    const json& figures = state.at("gradients").at(p.name);
    const std::vector<float> gradient = to_pytorch(p, gradients);
    const double norm = figures.at("norm");
    if (norm < 1e-9 * whole) {
      worst.zero = worse(worst.zero, norm_of(gradient) / whole);
      continue;
    }
    const double distance = projected_distance(gradient, figures.at("tensor"), figures.at("projections"),
                                               figures.value("stride", size_t{1}));
    worst.relative.see(distance / std::max(norm, 1e-3 * whole), p.name);
  }
  return worst;
}

double buffer_distance(const json& state, std::span<const BatchNormState> batch_norms,
                       const std::vector<float>& statistics) {
  double worst = 0;
  for (const BatchNormState& norm : batch_norms)
    for (const int part : {0, 1}) {
      if (!norm.trained) continue;
      const json& figures = state.at("buffers").at(norm.layer_name + (part == 0 ? ".running_mean" : ".running_var"));
      const auto values =
          std::span(statistics).subspan(norm.span.offset + part * norm.span.channels, norm.span.channels);
      const double distance = projected_distance(values, figures.at("tensor"), figures.at("projections"));
      worst = worse(worst, distance / figures.at("norm").get<double>());
    }
  return worst;
}

// Frozen tensors and the statistics of frozen norms have the bits that they had before.
void expect_frozen(const Replica& r, const std::vector<float>& weights, const std::vector<float>& statistics) {
  const std::vector<float> after = r.download_weights(), of_norms = r.download_stats(r.running_stats());
  for (const Parameter& p : r.parameters) {
    const auto first = weights.begin() + p.offset;
    EXPECT_TRUE(p.trained || std::equal(first, first + p.count, after.begin() + p.offset)) << p.name;
  }
  for (const BatchNormState& n : r.batch_norms) {
    const auto first = statistics.begin() + n.span.offset;
    EXPECT_TRUE(n.trained || std::equal(first, first + 2 * n.span.channels, of_norms.begin() + n.span.offset))
        << n.layer_name;
  }
}

struct Case {
  const char* file;
  bool winograd = true;
  bool closed = true;  // false: states with closed ReLUs have the direct algorithm
};

void PrintTo(const Case& tested, std::ostream* out) { *out << tested.file << (tested.winograd ? "" : ", direct"); }

// A network of the program, or of a file beside the figures.
Network network_named(const std::string& name, ImageShape image, int64_t classes) {
  if (!name.ends_with(".toml")) return make_model(name, image, classes);
  std::ifstream file(fmt::format("{}/networks/{}", DDP_EXPECTED, name));
  return make_model({.name = name, .text = {std::istreambuf_iterator<char>(file), {}}}, name, image, classes);
}

std::unique_ptr<Dataset> data_for(const Network& network, int classes) {
  const ImageShape image = network.input();
  if (network.reads_tokens()) return std::make_unique<NoiseTokens>(image.h, classes);
  if (image == ImageShape{28, 28, 1}) return std::move(open_datasets("fashion-mnist", "").train);
  return std::make_unique<Noise>(image);
}

class Networks : public ::testing::TestWithParam<Case> {
 protected:
  // If rounding flips ReLUs, PyTorch's gradients are no reference. Then the test compares the first loss, the running
  // statistics and the evaluation.
  void compare(const json& state) {
    const int64_t batch = state.at("batch_size"), first = state.at("first_batch");
    const std::string start = state.at("start");
    const bool whole = comparable(state), centred = start == "open";
    const ParityOrder order(*data, first * batch, 6 * batch), batch_again(*data, first * batch, batch);
    Fixture fixture({.batch_size = batch, .lr = state.at("lr"), .order = Order::sequential}, network, order, *device,
                    centred || GetParam().closed ? *ops : *direct, *world[0]);
    Replica& r = fixture.replica;
    start_from(state, r);
    if (centred) centre_statistics(r, batch_again, batch);
    const std::vector<float> weights = r.download_weights(), statistics = r.download_stats(r.running_stats());

    std::printf("%s, %s weights, batch %d: ", GetParam().file, start.c_str(), static_cast<int>(batch));
    const std::vector<double> expected = state.at("losses");
    std::vector<double> losses = fixture.losses(0, 1);
    if (whole) {
      const Worst gradients = gradient_distance(state, r.parameters, download_gradients(r));
      EXPECT_LE(gradients.relative.value, 1e-4) << gradients.relative.tensor;
      EXPECT_LE(gradients.zero, 1e-6);
      std::printf("gradients within %.1e (zero ones %.1e), ", gradients.relative.value, gradients.zero);
    } else {
      std::printf("gradients not compared: PyTorch's own ways of rounding are %.1e apart; ", gradient_spread(state));
    }
    if (!centred) {
      const double buffers = buffer_distance(state, r.batch_norms, r.download_stats(r.running_stats()));
      EXPECT_LE(buffers, whole ? 1e-5 : std::max(1e-5, 2 * largest_spread(state, "buffers")));
      std::printf("statistics %.1e, ", buffers);
    }
    const auto next = fixture.losses(1, 6);
    losses.insert(losses.end(), next.begin(), next.end());
    if (!centred) {
      DeviceDataset on_device(*device, batch_again, batch, {});
      const DistributedSampler sequential(batch, batch, Order::sequential, 0, 0, {1.0});
      const double evaluated = state.at("evaluation_loss");
      Evaluator evaluator(r, on_device, sequential);
      const double evaluation = std::abs(evaluate_all(evaluator).loss / evaluated - 1);
      EXPECT_LE(evaluation, loss_bound(state, "evaluation_loss"));
      std::printf("evaluation %.1e, ", evaluation);
    }
    expect_frozen(r, weights, statistics);
    const double first_loss = std::abs(losses[0] / expected[0] - 1);
    EXPECT_LE(first_loss, 1e-5);
    if (whole) {
      const double loss = loss_distance(losses, expected);
      EXPECT_LE(loss, loss_bound(state, "losses"));
      EXPECT_LE(std::abs(losses[1] / expected[1] - 1), 1e-5);
      std::printf("losses %.1e, ", loss);
    }
    std::printf("the first %.1e\n", first_loss);
  }

  const json figures = expected_figures(std::string("networks/") + GetParam().file + ".json");
  const ImageShape image{figures.at("image")[0], figures.at("image")[1], figures.at("image")[2]};
  const int classes = figures.value("classes", 10);
  const Network network = freeze(without_dropout(network_named(figures.at("network"), image, classes)),
                                 figures.value("freeze", std::vector<std::string>()));
  const std::unique_ptr<Dataset> data = data_for(network, classes);
  const std::unique_ptr<Device> device = make_cpu_device();
  const std::unique_ptr<Ops> ops = make_cpu_ops(*device, {.winograd = GetParam().winograd});
  const std::unique_ptr<Ops> direct = make_cpu_ops(*device, {.winograd = false});
  std::vector<std::unique_ptr<Communicator>> world = make_local_communicators(1);
};

TEST_P(Networks, GradientsAndNextLossesMatchPytorch) {
  const json& states = figures.at("states");
  for (const json& state : states) compare(state);
  EXPECT_TRUE(std::any_of(states.begin(), states.end(), comparable));
}

// Tiles of 7 x 7 round by 6e-6 of the norm: of a million ReLU inputs, some change their sign, and one of them moves a
// gradient of two samples by a hundredth of its norm. The direct algorithm flips none in these states, and open ReLUs
// cannot flip.
// DDP_EVERY_NETWORK=1 adds vgg16 and vit_b_16: half a minute and two gigabytes for what the others have in small.
std::vector<Case> cases() {
  std::vector<Case> cases{{"mlp"},
                          {"keras-convnet"},
                          {"resnet18", true, false},
                          {"torchvision-resnet18-28", false},
                          {"torchvision-resnet50-64", true},
                          {"frozen-beginning"},
                          {"frozen-norms", false},
                          {"mobilenet_v3_small"},
                          {"efficientnet_b0"},
                          {"densenet121"},
                          {"convnext_tiny"},
                          {"vit-tiny"},
                          {"gpt"}};
  if (std::getenv("DDP_EVERY_NETWORK")) cases.insert(cases.end(), {{"vgg16"}, {"vit_b_16"}});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(, Networks, ::testing::ValuesIn(cases()), [](const auto& tested) {
  std::string name = tested.param.file;
  std::replace(name.begin(), name.end(), '-', '_');
  return name + (tested.param.winograd ? "" : "_direct");
});

}  // namespace
}  // namespace ddp::testing
