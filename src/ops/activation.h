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
  constexpr explicit operator bool() const { return kind != Kind::none; }
  friend constexpr bool operator==(const Activation&, const Activation&) = default;
};

inline constexpr Activation kRelu{Activation::Kind::relu};

}  // namespace ddp
