// The activation functions, with the formulas of torch.nn:
//
//   relu          max(x, 0)
//   relu6         min(max(x, 0), 6)
//   leaky_relu    x > 0 ? x : slope * x
//   sigmoid       1 / (1 + exp(-x))
//   hard_sigmoid  min(max(x + 3, 0), 6) / 6
//   silu          x * sigmoid(x)
//   hard_swish    x * hard_sigmoid(x)
//   gelu          x / 2 * (1 + erf(x / sqrt(2)))
//   gelu_tanh     x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
//   tanh          tanh(x)
//
// The derivative at a kink is PyTorch's: relu 0, relu6 0 at both, leaky_relu slope, hard_sigmoid 0 at both, hard_swish
// 0 at -3 and 1 at 3.
#pragma once

#include <cstdint>

namespace ddp {

struct Activation {
  enum class Kind : uint8_t {
    none,
    relu,
    relu6,
    leaky_relu,
    sigmoid,
    hard_sigmoid,
    silu,
    hard_swish,
    gelu,
    gelu_tanh,
    tanh
  };
  Kind kind = Kind::none;
  float slope = 0.01f;  // of leaky_relu, for negative values

  constexpr bool is_relu() const { return kind == Kind::relu; }
  // Whether the backward pass reads the input of the function; for a ReLU it reads the output.
  constexpr bool reads_input() const { return kind != Kind::none && kind != Kind::relu; }
  constexpr bool keeps_zero() const { return kind != Kind::sigmoid && kind != Kind::hard_sigmoid; }  // f(0) = 0
  constexpr explicit operator bool() const { return kind != Kind::none; }
  friend constexpr bool operator==(const Activation&, const Activation&) = default;
};

inline constexpr Activation kRelu{Activation::Kind::relu};

}  // namespace ddp
