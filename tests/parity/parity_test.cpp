// One step's gradients, the losses that follow, and a hundred losses, against PyTorch's. How the figures in expected/
// were made, and what weights, order and projections are, is said in make_expected.py and lenet.py.
#include "comm/local/world.h"
#include "data/catalog.h"
#include "device/cpu/device.h"
#include "nn/models.h"
#include "ops/cpu/ops.h"
#include "tests/train/rig.h"
#include "train/state_dict.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <map>

namespace ddp::testing {
namespace {

using nlohmann::json;

uint64_t hash(uint64_t x) {
  uint64_t z = x + 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

const std::vector<std::string> kNames = {"0.weight", "0.bias", "3.weight", "3.bias",
                                         "7.weight", "7.bias", "9.weight", "9.bias"};

uint64_t tensor_index(const std::string& name) {
  return std::find(kNames.begin(), kNames.end(), name) - kNames.begin();
}

std::vector<float> parity_weights(std::span<const Parameter> parameters) {
  const std::map<int, double> scale = {{0, 9}, {3, 180}, {7, 800}, {9, 128}};
  std::vector<float> flat(flat_count(parameters));
  for (const Parameter& p : parameters)
    for (int64_t i = 0; i < p.count; ++i) {
      const uint64_t bits = hash(tensor_index(p.name) << 32 | static_cast<uint64_t>(p.pytorch_index(i)));
      const double unit = static_cast<double>(bits >> 11) * 0x1p-53;
      flat[p.offset + i] = static_cast<float>((2 * unit - 1) / std::sqrt(scale.at(p.layer)));
    }
  return flat;
}

// Samples first, first + 1, ... of the parity order.
class ParityOrder : public Dataset {
 public:
  ParityOrder(const Dataset& whole, int64_t first, int64_t count) : whole_(whole), first_(first), count_(count) {}
  int64_t size() const override { return count_; }
  ImageShape image_shape() const override { return whole_.image_shape(); }
  int classes() const override { return whole_.classes(); }
  void read(int64_t i, std::span<uint8_t> pixels) const override { whole_.read(at(i), pixels); }
  int32_t label(int64_t i) const override { return whole_.label(at(i)); }

 private:
  int64_t at(int64_t i) const { return (first_ + i) * 7919 % 60000; }
  const Dataset& whole_;
  int64_t first_, count_;
};

class Parity : public ::testing::Test {
 protected:
  Parity() { std::ifstream(std::string(DDP_EXPECTED) + "/parity.json") >> expected; }

  Rig rig_on(const Dataset& order, double lr) {
    return Rig({.batch_size = 256, .lr = lr, .order = Order::sequential}, network, order, *device, *ops, *world[0]);
  }

  json expected;
  const Network network = lenet({28, 28, 1}, 10);
  const std::unique_ptr<Dataset> data = open_datasets("fashion-mnist", "").train;
  const std::unique_ptr<Device> device = make_cpu_device();
  const std::unique_ptr<Ops> ops = make_cpu_ops(*device, 1);
  std::vector<std::unique_ptr<Communicator>> world = make_local_world(1);
};

// The distance of a gradient from PyTorch's, from 64 random projections, over PyTorch's norm.
double projected_distance(const Parameter& p, std::span<const float> flat, const json& expected) {
  const std::vector<float> gradient = to_pytorch(p, flat);
  std::array<double, 64> projections{};
  for (size_t e = 0; e < gradient.size(); ++e) {
    const uint64_t signs = hash((256 + tensor_index(p.name)) << 32 | e);
    for (int k = 0; k < 64; ++k) projections[k] += (signs >> k & 1 ? 1.0 : -1.0) * gradient[e];
  }
  double squares = 0;
  for (int k = 0; k < 64; ++k) {
    const double difference = projections[k] - expected.at("projections")[k].get<double>();
    squares += difference * difference;
  }
  return std::sqrt(squares / 64) / expected.at("norm").get<double>();
}

TEST_F(Parity, OneStepAndTheNextLosses) {
  for (const json& state : expected.at("states")) {
    const int64_t step = state.at("step");
    const ParityOrder order(*data, state.at("first_batch").get<int64_t>() * 256, 6 * 256);
    Rig rig = rig_on(order, expected.at("lr"));
    Replica& replica = rig.replica;
    replica.load(step == 0 ? parity_weights(replica.parameters)
                           : load_state_dict(fmt::format("{}/weights_{:03}.safetensors", DDP_EXPECTED, step),
                                             replica.parameters));
    std::vector<double> losses = rig.losses(0, 1);
    const std::vector<float> gradients = replica.download_gradients();
    double worst = 0;
    for (const Parameter& p : replica.parameters) {
      const double distance = projected_distance(p, gradients, state.at("gradients").at(p.name));
      EXPECT_LE(distance, 1e-4) << p.name << " after " << step << " steps";
      worst = std::max(worst, distance);
    }
    const auto next = rig.losses(1, 6);
    losses.insert(losses.end(), next.begin(), next.end());
    const double distance = loss_distance(losses, state.at("losses").get<std::vector<double>>());
    EXPECT_LE(distance, 1e-5) << "after " << step << " steps";
    std::printf("after %3d steps: gradients within %.1e, losses within %.1e\n", static_cast<int>(step), worst,
                distance);
  }
}

// Free-running losses part when a ReLU's input is within rounding of zero: PyTorch's own ways of rounding are up to
// 4e-5 apart in these runs (`spread` in parity.json). So the first forty agree to 1e-5 in every run, all hundred in
// most, and none parts by more than such events explain; wrong mathematics is off by 1e-2 at once.
TEST_F(Parity, AHundredLosses) {
  int agree = 0;
  for (const json& run : expected.at("free_running").at("runs")) {
    const ParityOrder order(*data, run.at("first_batch").get<int64_t>() * 256, 100 * 256);
    Rig rig = rig_on(order, expected.at("free_running").at("lr"));
    rig.replica.load(parity_weights(rig.replica.parameters));
    const std::vector<double> losses = rig.losses(0, 100);
    const auto theirs = run.at("losses").get<std::vector<double>>();
    const double first_forty = loss_distance(std::span(losses).first(40), std::span(theirs).first(40));
    const double all = loss_distance(losses, theirs);
    EXPECT_LE(first_forty, 1e-5);
    EXPECT_LE(all, 1e-4);
    agree += all <= 1e-5;
    std::printf("40 losses within %.1e, 100 losses within %.1e\n", first_forty, all);
  }
  EXPECT_GE(agree, 3);
}

}  // namespace
}  // namespace ddp::testing
