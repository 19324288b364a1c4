// The formulas of ops/activation.h and their derivatives, in double.
#pragma once

#include "core/error.h"
#include "ops/activation.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ddp::reference {

inline double value_of(const Activation& activation, double x) {
  using enum Activation::Kind;
  if (std::isnan(x)) return x;
  switch (activation.kind) {
    case none: break;
    case relu: return std::max(x, 0.0);
    case relu6: return std::min(std::max(x, 0.0), 6.0);
    case leaky_relu: return x > 0 ? x : x * activation.slope;
    case sigmoid: return 1 / (1 + std::exp(-x));
    case hard_sigmoid: return std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case silu: return x / (1 + std::exp(-x));
    case hard_swish: return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case gelu: return x / 2 * std::erfc(-x / std::numbers::sqrt2);
    case gelu_tanh: {
      const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return x / (1 + std::exp(-2 * u));  // 1 + tanh(u) = 2 / (1 + exp(-2 u))
    }
    case tanh: return std::tanh(x);
  }
  fail(Exit::internal, "the reference has no activation {}", static_cast<int>(activation.kind));
}

inline double derivative_at(const Activation& activation, double x) {
  using enum Activation::Kind;
  const double s = 1 / (1 + std::exp(-x)), rest = 1 / (1 + std::exp(x));  // rest = 1 - s
  switch (activation.kind) {
    case none: break;
    case relu: return x <= 0 ? 0 : 1;
    case relu6: return x <= 0 || x >= 6 ? 0 : 1;
    case leaky_relu: return x > 0 ? 1 : static_cast<double>(activation.slope);
    case sigmoid: return s * rest;
    case hard_sigmoid: return x <= -3 || x >= 3 ? 0 : 1.0 / 6;
    case silu: return s + x * s * rest;
    case hard_swish: return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5;
    case gelu:
      return std::erfc(-x / std::numbers::sqrt2) / 2 + x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    case gelu_tanh: {
      const double c = std::sqrt(2 / std::numbers::pi), u = c * (x + 0.044715 * x * x * x);
      const double t = 1 / (1 + std::exp(-2 * u)), of_t = t / (1 + std::exp(2 * u));
      return t + x * of_t * 2 * c * (1 + 3 * 0.044715 * x * x);
    }
    case tanh: return 4 / ((1 + std::exp(2 * x)) * (1 + std::exp(-2 * x)));
  }
  fail(Exit::internal, "the reference has no activation {}", static_cast<int>(activation.kind));
}

}  // namespace ddp::reference
