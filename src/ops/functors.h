// Elementwise mathematics, written once; each backend only launches it. Templates are over float or a vector of floats
// where they see activations, over float or double where they see sums: a CPU adds those up in double.
#pragma once

#include "core/philox.h"
#include "ops/dropout.h"
#include "ops/host_device.h"

#include <cmath>
#include <cstdint>

namespace ddp {

template <class T>
struct ReluOf {
  DDP_HOST_DEVICE T operator()(T x) const { return x > T{} ? x : T{}; }
};
using Relu = ReluOf<float>;

template <class T>
struct ReluGradientOf {
  DDP_HOST_DEVICE T operator()(T y, T dy) const { return y > T{} ? dy : T{}; }
};
using ReluGradient = ReluGradientOf<float>;

struct Normalize {
  DDP_HOST_DEVICE float operator()(uint8_t pixel) const { return static_cast<float>(pixel) * (1.0f / 255.0f); }
};

// The rules of ops/optimizer.h for one element. `decay` is 0 for a tensor that does not decay.
struct SgdRule {
  float lr, gradient_scale, momentum;
  bool nesterov, decoupled;

  DDP_HOST_DEVICE void operator()(float& w, float g, float& m, float decay) const {
    const float d = decayed(w, g, decay);
    m = momentum * m + d;
    w -= lr * (nesterov ? d + momentum * m : m);
  }
  DDP_HOST_DEVICE void operator()(float& w, float g, float decay) const {  // momentum 0, without state
    const float d = decayed(w, g, decay);
    w -= lr * d;
  }

 private:
  DDP_HOST_DEVICE float decayed(float& w, float g, float decay) const {
    g *= gradient_scale;
    if (!decoupled) return g + decay * w;
    w -= lr * decay * w;
    return g;
  }
};

struct AdamRule {
  float lr, gradient_scale, beta1, beta2, epsilon, correction1, correction2;
  bool decoupled;

  DDP_HOST_DEVICE void operator()(float& w, float g, float& m, float& v, float decay) const {
    g *= gradient_scale;
    if (decoupled)
      w -= lr * decay * w;
    else
      g += decay * w;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    w -= lr / correction1 * m / (std::sqrt(v / correction2) + epsilon);
  }
};

// A tensor's own factor of the learning rate, from its sums of squares.
template <class T>
struct LarsFactorOf {
  T trust, decay, gradient_scale;

  DDP_HOST_DEVICE T operator()(T weight_squares, T gradient_squares) const {
    const T w = std::sqrt(weight_squares), g = std::sqrt(gradient_squares) * std::abs(gradient_scale);
    return w > 0 && g > 0 ? trust * w / (g + decay * w) : T{1};
  }
};

// `local` is the tensor's own factor of the learning rate.
struct LarsRule {
  float lr, gradient_scale, momentum;

  DDP_HOST_DEVICE void operator()(float& w, float g, float& m, float decay, float local) const {
    m = momentum * m + lr * local * (g * gradient_scale + decay * w);
    w -= m;
  }
};

// What gradients are multiplied by, from the sum of their squares: 0 where that is infinite, 1 where it is NaN.
struct ClipScale {
  float limit;
  DDP_HOST_DEVICE float operator()(float squares) const {
    const float scale = limit / (std::sqrt(squares) + 1e-6f);
    return scale < 1 ? scale : 1;
  }
};

// A channel's statistics from batch norm's sums. The variance is a difference, which rounding may make negative; NaN
// stays.
template <class T>
struct MomentsOf {
  T offset, variance;  // the mean minus the center of the sums; over the count

  DDP_HOST_DEVICE MomentsOf(T s1, T s2, T count) : offset(s1 / count), variance(s2 / count - offset * offset) {
    if (variance < 0) variance = 0;
  }
};

// Of one channel, whose mean was the center of the sums.
template <class T>
struct RunningStatsRule {
  T count;
  float momentum;
  bool unbiased;

  DDP_HOST_DEVICE void operator()(float& mean, float& variance, float s1, float s2) const {
    const MomentsOf<T> now(s1, s2, count);
    const T correction = unbiased && count > 1 ? count / (count - 1) : T{1};
    mean += momentum * static_cast<float>(now.offset);
    variance = (1 - momentum) * variance + momentum * static_cast<float>(now.variance * correction);
  }
};

template <class T>
struct BatchNormForwardOf {
  T mean, factor, shift;  // factor = scale / sqrt(var + epsilon)
  DDP_HOST_DEVICE T operator()(T x) const { return (x - mean) * factor + shift; }
};
using BatchNormForward = BatchNormForwardOf<float>;

// d loss / d x, with t1 and t2 divided by the count already.
template <class T>
struct BatchNormGradientOf {
  T mean, inverse_deviation, factor, mean_t1, mean_t2;
  DDP_HOST_DEVICE T operator()(T x, T dy) const {
    return factor * (dy - mean_t1 - (x - mean) * inverse_deviation * mean_t2);
  }
};
using BatchNormGradient = BatchNormGradientOf<float>;

// What dropout (ops/dropout.h) multiplies element e of a sample by; `word` is word e % 4 of its random bits.
struct DropoutFactor {
  uint32_t threshold;  // rate * 2^32
  float kept;          // 1 / (1 - rate)
  DDP_HOST_DEVICE float operator()(uint32_t word) const { return word >= threshold ? kept : 0.0f; }
};
DDP_HOST_DEVICE DropoutFactor dropout_factor(const Dropout& d) {
  return {static_cast<uint32_t>(static_cast<double>(d.rate) * 0x1p32), 1 / (1 - d.rate)};
}
// The last word of the counter that those bits are drawn with.
DDP_HOST_DEVICE uint32_t dropout_operation(const Dropout& d) {
  return static_cast<uint32_t>(Operation::dropout) + 256 * d.layer;
}

// d loss / d logit, given exp(z - max) of one class and the reciprocal of their sum.
struct SoftmaxGradient {
  float scale;
  float smoothing_share = 0;  // smoothing / classes
  float label_target = 1;     // 1 - smoothing + smoothing_share
  DDP_HOST_DEVICE float operator()(float exp_z, float reciprocal_sum, bool is_label) const {
    return (exp_z * reciprocal_sum - (is_label ? label_target : smoothing_share)) * scale;
  }
};

struct IsNonfinite {
  DDP_HOST_DEVICE bool operator()(uint32_t bits) const { return (bits & 0x7f800000u) == 0x7f800000u; }
};

}  // namespace ddp
