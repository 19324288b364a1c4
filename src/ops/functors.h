// Elementwise mathematics, written once; each backend only launches it.
#pragma once

#include "ops/host_device.h"

#include <cmath>
#include <cstdint>

namespace ddp {

struct Relu {
  DDP_HOST_DEVICE float operator()(float x) const { return x > 0 ? x : 0; }
};

struct ReluGradient {
  DDP_HOST_DEVICE float operator()(float y, float dy) const { return y > 0 ? dy : 0; }
};

struct Normalize {
  DDP_HOST_DEVICE float operator()(uint8_t pixel) const { return static_cast<float>(pixel) * (1.0f / 255.0f); }
};

// The rules of ops/optimizer.h for one element. `decay` is 0 for a tensor that does not decay.
struct SgdRule {
  float rate, gradient_scale, momentum;
  bool nesterov, decoupled;

  DDP_HOST_DEVICE void operator()(float& w, float g, float& m, float decay) const {
    const float d = decayed(w, g, decay);
    m = momentum * m + d;
    w -= rate * (nesterov ? d + momentum * m : m);
  }
  DDP_HOST_DEVICE void operator()(float& w, float g, float decay) const {  // momentum 0, without state
    const float d = decayed(w, g, decay);
    w -= rate * d;
  }

 private:
  DDP_HOST_DEVICE float decayed(float& w, float g, float decay) const {
    g *= gradient_scale;
    if (!decoupled) return g + decay * w;
    w -= rate * decay * w;
    return g;
  }
};

struct AdamRule {
  float rate, gradient_scale, beta1, beta2, epsilon, correction1, correction2;
  bool decoupled;

  DDP_HOST_DEVICE void operator()(float& w, float g, float& m, float& v, float decay) const {
    g *= gradient_scale;
    if (decoupled)
      w -= rate * decay * w;
    else
      g += decay * w;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    w -= rate / correction1 * m / (std::sqrt(v / correction2) + epsilon);
  }
};

// `local` is the tensor's own factor of the rate.
struct LarsRule {
  float rate, gradient_scale, momentum;

  DDP_HOST_DEVICE void operator()(float& w, float g, float& m, float decay, float local) const {
    m = momentum * m + rate * local * (g * gradient_scale + decay * w);
    w -= m;
  }
};

// Of floats, or of vectors of them.
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
