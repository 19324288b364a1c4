// Times a forward and a backward pass of layer norm and attention on one core.
//
//   attention_bench CASE [rounds]   prints the median in milliseconds; without a case it prints the cases
#include "device/buffer.h"
#include "device/cpu/device.h"
#include "ops/cpu/ops.h"
#include "tests/bench/median.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace ddp {
namespace {

struct AttentionCase {
  int64_t n, tokens, width, heads;  // heads 0: layer norm
  bool causal = false;
};

const std::map<std::string, AttentionCase> kCases = {{"layer_norm", {32, 196, 768, 0}},
                                                     {"vit_b_16", {4, 197, 768, 12}},
                                                     {"gpt2", {1, 1024, 768, 12, true}},
                                                     {"vit_tiny", {64, 65, 192, 3}}};

struct Activation {
  Activation(Device& device, const Shape& shape)
      : buffer(device, sizeof(float) * shape.elements()), tensor{buffer.data(), shape, {}, DType::f32} {
    for (int64_t i = 0; i < shape.elements(); ++i) tensor.f32()[i] = static_cast<float>(i * 7919 % 257 - 128) / 128;
  }
  Buffer buffer;
  Tensor tensor;
};

int time_case(const AttentionCase& c, int rounds) {
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {});
  const int64_t sizes[] = {c.n}, parts = c.heads == 0 ? 1 : 3;
  const Shape in{c.n, {c.tokens, 1, parts * c.width}}, out{c.n, {c.tokens, 1, c.width}};
  const Activation x(*device, in), y(*device, out), dy(*device, out), dx(*device, in);
  std::vector<float> scale(c.width, 1.0f), shift(c.width), dscale(c.width), dshift(c.width);
  const auto norm = ops->layer_norm({.input = out.image}, sizes);
  norm->bind(scale.data(), shift.data());
  const auto attention = ops->attention(
      {.tokens = c.tokens, .width = c.width, .heads = c.heads == 0 ? 1 : c.heads, .causal = c.causal}, sizes);
  const auto work = [&] {
    if (c.heads == 0) {
      norm->forward(x.tensor, y.tensor);
      norm->backward(x.tensor, dy.tensor, dx.tensor, dscale.data(), dshift.data(), Gradient::overwrite);
    } else {
      attention->forward(x.tensor, y.tensor);
      attention->backward(x.tensor, y.tensor, dy.tensor, dx.tensor);
    }
  };
  fmt::print("{:.3f}\n", median_milliseconds(
                             rounds, [] {}, work));
  return 0;
}

}  // namespace
}  // namespace ddp

int main(int argc, char** argv) {
  const auto found = ddp::kCases.find(argc > 1 ? argv[1] : "");
  if (found != ddp::kCases.end()) return ddp::time_case(found->second, argc > 2 ? std::atoi(argv[2]) : 9);
  for (const auto& [name, c] : ddp::kCases)
    fmt::print("{} {} {} {} {} {}\n", name, c.n, c.tokens, c.width, c.heads, c.causal ? 1 : 0);
  return 0;
}
