// Compares torchvision's networks with the files in nn/models: names and shapes of all tensors, options of the norms,
// rates, and initial weights. make_torchvision.py describes the figures in expected/torchvision.json. make_gpt2.py
// makes those of transformers' GPT-2.
#include "nn/init.h"
#include "nn/models.h"
#include "tests/parity/parity.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace ddp::testing {
namespace {

using nlohmann::json;
using Lines = std::vector<std::string>;

std::string fnv(Lines lines) {
  std::ranges::sort(lines);
  uint64_t value = 0xCBF29CE484222325;
  for (const std::string& line : lines)
    for (const char c : line + "\n") value = (value ^ static_cast<uint8_t>(c)) * 0x100000001B3;
  return fmt::format("{:016x}", value);
}

struct Shapes {
  Lines lines;
  int64_t elements = 0;
};

Shapes shapes_of(std::span<const Parameter> parameters, std::span<const BatchNormState> batch_norms) {
  Shapes shapes;
  for (const Parameter& p : parameters) {
    shapes.lines.push_back(fmt::format("{} {}", p.name, fmt::join(p.pytorch_shape, "x")));
    shapes.elements += p.count;
  }
  for (const BatchNormState& norm : batch_norms)
    for (const char* tensor : {"running_mean", "running_var"}) {
      shapes.lines.push_back(fmt::format("{}.{} {}", norm.layer_name, tensor, norm.span.channels));
      shapes.elements += norm.span.channels;
    }
  return shapes;
}

Lines options_of(const Network& network) {
  using LayerKind = LayerSpec::Kind;
  Lines lines;
  for (const LayerSpec& l : network.layers()) {
    if (l.kind == LayerKind::batch_norm)
      lines.push_back(fmt::format("{} {:.6g} {:.6g}", l.name, l.norm.epsilon, l.norm.momentum));
    if (l.kind == LayerKind::layer_norm) lines.push_back(fmt::format("{} {:.6g}", l.name, l.norm.epsilon));
    if ((l.kind == LayerKind::dropout || l.kind == LayerKind::stochastic_depth) && l.rate > 0)
      lines.push_back(fmt::format("{} {:.6g}", l.name, l.rate));
  }
  return lines;
}

constexpr int64_t kMostValues = 20'000;

// The mean of the absolute values and the standard deviation of a parameter's first values before training.
std::pair<double, double> initial_figures(Parameter p) {
  p.offset = 0;
  p.count = std::min(p.count, kMostValues);
  std::vector<float> values(static_cast<size_t>(p.count));
  initialize(values, {&p, 1}, {}, 1);
  double sum = 0, absolute = 0, squares = 0;
  for (const float value : values) {
    sum += value;
    absolute += std::abs(value);
    squares += double{value} * value;
  }
  const auto n = static_cast<double>(p.count);
  return {absolute / n, std::sqrt(std::max(0.0, squares / n - sum / n * sum / n))};
}

void expect_figures(const Network& network, const json& figures) {
  std::vector<Parameter> parameters = parameters_of(network);
  const Shapes shapes = shapes_of(parameters, batch_norm_states_of(network));
  EXPECT_EQ(std::ssize(shapes.lines), figures.at("tensors").get<int64_t>());
  EXPECT_EQ(shapes.elements, figures.at("elements").get<int64_t>());
  EXPECT_EQ(fnv(shapes.lines), figures.at("state_dict").get<std::string>())
      << fmt::format("{}", fmt::join(shapes.lines, "\n"));
  const Lines options = options_of(network);
  EXPECT_EQ(fnv(options), figures.at("options").get<std::string>()) << fmt::format("{}", fmt::join(options, "\n"));

  const std::vector<double> init = figures.at("init");
  ASSERT_EQ(init.size(), 2 * parameters.size());
  std::ranges::sort(parameters, {}, &Parameter::name);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = parameters[i];
    const auto [absolute, deviation] = initial_figures(p);
    const auto values = static_cast<double>(std::min(p.count, kMostValues));
    const double tolerance = 0.01 + 5 / std::sqrt(2 * values);  // three digits; five standard errors
    EXPECT_NEAR(absolute, init[2 * i], tolerance * init[2 * i]) << p.name;
    EXPECT_NEAR(deviation, init[2 * i + 1], tolerance * init[2 * i + 1]) << p.name;
  }
}

class Torchvision : public ::testing::TestWithParam<const char*> {};

TEST_P(Torchvision, TensorsOptionsAndInitialWeightsAreTorchvisions) {
  const json figures = expected_figures("torchvision.json").at(GetParam());
  const int64_t size = figures.at("image");
  expect_figures(make_model(GetParam(), {size, size, 3}, figures.at("classes").get<int64_t>()), figures);
}

TEST(Transformers, TensorsOptionsAndInitialWeightsAreThoseOfGpt2) {
  const json figures = expected_figures("gpt2.json").at("gpt2-124m");
  for (const int64_t tokens : {1024, 16})  // fewer tokens change no tensor
    expect_figures(make_model("gpt2-124m", {tokens, 1, 1}, figures.at("classes").get<int64_t>()), figures);
}

INSTANTIATE_TEST_SUITE_P(, Torchvision,
                         ::testing::Values("mobilenet_v3_small", "efficientnet_b0", "vgg16", "densenet121",
                                           "convnext_tiny", "vit_b_16", "vit-tiny"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace ddp::testing
