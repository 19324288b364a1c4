// How the weights of a network file begin.
#include "core/error.h"
#include "nn/model_file.h"
#include "nn/parameters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace ddp {
namespace {

using enum InitRule::Kind;

Network with_init(const std::string& convolution, const std::string& rest = "") {
  const std::string text = "layers = [\n  { conv2d = 16, kernel = 3, groups = 2" + convolution +
                           " },\n  { global_avg_pool = true }, { flatten = true },\n"
                           "  { linear = \"classes\", name = \"fc\" } ]\n" +
                           rest;
  return make_model({.name = "net", .text = text}, "net.toml", {8, 8, 4}, 10);
}

void expect_rule(const InitRule& rule, InitRule::Kind kind, double value) {
  EXPECT_EQ(rule.kind, kind);
  EXPECT_DOUBLE_EQ(rule.value, value);
}

TEST(ModelInit, IsARuleOrAnExpressionOfTheFans) {
  const auto weight = [](const std::string& init) { return with_init(", init = " + init).layers()[0].weight_init; };
  expect_rule(weight("\"kaiming_normal_fan_out\""), normal, std::sqrt(2 / 144.0));
  expect_rule(weight("{ trunc_normal = \"sqrt(1 / fan_in)\" }"), trunc_normal, std::sqrt(1 / 18.0));
  expect_rule(weight("{ uniform = \"2 * sqrt(fan_out + 1 - 1) / classes\" }"), uniform, 2.4);
  expect_rule(weight("{ constant = -1 }"), constant, -1);
  const LayerSpec conv = with_init(", bias_init = { normal = 1e-6 }").layers()[0];
  expect_rule(conv.weight_init, pytorch, 0);
  expect_rule(conv.bias_init, normal, 1e-6);
}

TEST(ModelInit, MayBeADefaultOfAKind) {
  const auto layers = with_init(", init = \"ones\"",
                                "[defaults.conv2d]\ninit = \"zeros\"\nbias_init = \"zeros\"\n"
                                "[defaults.linear]\ninit = { normal = 0.01 }\n")
                          .layers();
  expect_rule(layers[0].weight_init, constant, 1);
  expect_rule(layers[0].bias_init, constant, 0);
  expect_rule(layers[3].weight_init, normal, 0.01);
  expect_rule(layers[3].bias_init, pytorch, 0);
}

TEST(ModelInit, ErrorsNameTheLineAndTheKey) {
  const auto refused = [](const std::string& convolution, const std::string& part) {
    try {
      with_init(convolution);
      ADD_FAILURE() << part;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Exit::model);
      const std::string text = e.what();
      EXPECT_NE(text.find("net.toml, line 2: layer 0 (conv2d): "), std::string::npos) << text;
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  };
  refused(", init = \"kaiming\"",
          "init = \"kaiming\" is no initial value; the names are: zeros, ones, pytorch, kaiming_");
  refused(", init = 3", "init must be a name (zeros, ");
  refused(", init = { normal = 1, uniform = 1 }", "init must be a name (zeros, ");
  refused(", init = { normal = 0 }", "init: normal = 0 must be greater than 0");
  refused(", bias_init = { uniform = \"sqrt(fan_in - 19)\" }", "sqrt(-1) is not real");
  refused(", bias_init = { uniform = \"sqrt fan_in\" }", "sqrt lacks a \"(\"");
  refused(", bias = false, bias_init = \"zeros\"", "bias_init is for a layer with a bias; leave it out");
}

}  // namespace
}  // namespace ddp
