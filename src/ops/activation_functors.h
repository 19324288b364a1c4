// The functions of ops/activation.h and their derivatives, for all backends. T is float or a vector of floats.
//
// exp, tanh and the normal distribution are polynomials, the same in all sets of instructions and on all devices. Their
// relative error is below 3e-7, and in the left tail of gelu and gelu_tanh 6e-8 * x^2, because an exponent is rounded.
// No finite argument gives NaN.
#pragma once

#include "ops/activation.h"
#include "ops/functors.h"
#include "ops/host_device.h"

#include <cstdint>

namespace ddp {

template <class T>
struct IntegersLike {  // what a comparison of vectors gives
  using type = decltype(T{} < T{});
};
template <>
struct IntegersLike<float> {
  using type = int32_t;
};

template <class T>
DDP_HOST_DEVICE T minus_abs(T x) {
  return x < T{} ? x : -x;
}

// min(max(x, low), high); NaN stays NaN.
template <class T>
DDP_HOST_DEVICE T clamp_to(T x, float low, float high) {
  const T at_least = x < T{} + low ? T{} + low : x;
  return at_least > T{} + high ? T{} + high : at_least;
}

// exp(x) for x <= 0, as in Cephes: 2^n * exp(r) with |r| <= log(2) / 2. Below -87 it is 0.
template <class T>
DDP_HOST_DEVICE T exp_of_negative(T x) {
  using Integers = typename IntegersLike<T>::type;
  constexpr float kLeast = -87.0f, kRound = 12582912.0f;  // 1.5 * 2^23, which moves n to the lowest bits
  const T clamped = x < T{} + kLeast ? T{} + kLeast : x;
  const T shifted = clamped * 1.44269504f + kRound, n = shifted - kRound;
  const T r = clamped - n * 0.693359375f + n * 2.12194440e-4f;
  T p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const T power = __builtin_bit_cast(T, (__builtin_bit_cast(Integers, shifted) << 23) + 0x3f800000);
  return x < T{} + kLeast ? T{} : p * power;
}

template <class T>
struct Sigmoid {
  T value, complement;  // complement = 1 - value, without cancellation

  DDP_HOST_DEVICE explicit Sigmoid(T x) {
    const T e = exp_of_negative(minus_abs(x)), larger = 1.0f / (1.0f + e), smaller = e * larger;
    value = x < T{} ? smaller : larger;
    complement = x < T{} ? larger : smaller;
  }
};

// Below 0.625, the polynomial of Cephes.
template <class T>
DDP_HOST_DEVICE T tanh_of(T x) {
  const T square = x * x;
  T p = square * -5.70498872745e-3f + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  const T e = exp_of_negative(2.0f * minus_abs(x)), magnitude = (1.0f - e) / (1.0f + e);
  const T large = x < T{} ? -magnitude : magnitude;
  return minus_abs(x) > T{} - 0.625f ? p * square * x + x : large;
}

// The standard normal distribution. P(X < -z) = exp(-z^2 / 2) * t * polynomial(t) with t = 1 / (1 + 0.21 z), for z >=
// 0.
template <class T>
struct Normal {
  T below, density;  // P(X < x), and its derivative

  DDP_HOST_DEVICE explicit Normal(T x) {
    const T z = -minus_abs(x), e = exp_of_negative(z * z * -0.5f), t = 1.0f / (z * 0.21f + 1.0f);
    T p = t * -0.07219003140926361f + 0.28622427582740784f;
    p = p * t - 0.33581846952438354f;
    p = p * t + 0.35595396161079407f;
    p = p * t - 0.09862558543682098f;
    p = p * t + 0.12697328627109528f;
    p = p * t + 0.06862163543701172f;
    p = p * t + 0.08515489846467972f;
    p = p * t + 0.08370605856180191f;
    const T tail = e * t * p;
    below = x < T{} ? tail : 1.0f - tail;
    density = e * 0.3989422804f;
  }
};

// gelu_tanh is x * sigmoid(2 u), where 2 u = 2 sqrt(2 / pi) * (x + 0.044715 x^3). Beyond 10 the sigmoid is 0 or 1.
template <class T>
struct GeluTanh {
  Sigmoid<T> sigmoid;
  T slope;  // of 2 u

  DDP_HOST_DEVICE explicit GeluTanh(T x) : GeluTanh(clamp_to(x, -10, 10), 0) {}

 private:
  DDP_HOST_DEVICE GeluTanh(T x, int)
      : sigmoid(x * (x * x * (kScale * 0.044715f) + kScale)), slope(x * x * (3 * kScale * 0.044715f) + kScale) {}
  static constexpr float kScale = 1.5957691216f;
};

template <Activation::Kind kind, class T>
DDP_HOST_DEVICE T activated(T x, float slope) {
  using K = Activation::Kind;
  if constexpr (kind == K::relu6) return clamp_to(x, 0, 6);
  if constexpr (kind == K::leaky_relu) return x > T{} ? x : x * slope;
  if constexpr (kind == K::sigmoid) return Sigmoid<T>(x).value;
  if constexpr (kind == K::hard_sigmoid) return clamp_to(x + 3.0f, 0, 6) * (1.0f / 6);
  if constexpr (kind == K::silu) return x * Sigmoid<T>(x).value;
  if constexpr (kind == K::hard_swish) return x * (clamp_to(x + 3.0f, 0, 6) * (1.0f / 6));
  if constexpr (kind == K::gelu) return x * Normal<T>(x).below;
  if constexpr (kind == K::gelu_tanh) return x * GeluTanh<T>(x).sigmoid.value;
  if constexpr (kind == K::tanh) return tanh_of(x);
}

template <Activation::Kind kind, class T>
DDP_HOST_DEVICE T derivative_at(T x, float slope) {
  using K = Activation::Kind;
  const T one = T{} + 1.0f;
  if constexpr (kind == K::relu6) {
    const T from_zero = x <= T{} ? T{} : one;
    return x >= T{} + 6.0f ? T{} : from_zero;
  }
  if constexpr (kind == K::leaky_relu) return x > T{} ? one : T{} + slope;
  if constexpr (kind == K::sigmoid) {
    const Sigmoid<T> s(x);
    return s.value * s.complement;
  }
  if constexpr (kind == K::hard_sigmoid) {
    const T from_least = x <= T{} - 3.0f ? T{} : one * (1.0f / 6);
    return x >= T{} + 3.0f ? T{} : from_least;
  }
  if constexpr (kind == K::silu) {
    const Sigmoid<T> s(x);
    return s.value + s.value * (x * s.complement);
  }
  if constexpr (kind == K::hard_swish) {
    const T between = x * (1.0f / 3) + 0.5f, above = x >= T{} + 3.0f ? one : between;
    return x <= T{} - 3.0f ? T{} : above;
  }
  if constexpr (kind == K::gelu) {
    const Normal<T> normal(x);
    return x * normal.density + normal.below;
  }
  if constexpr (kind == K::gelu_tanh) {
    const GeluTanh<T> g(x);
    const T& s = g.sigmoid.value;
    return s + s * (clamp_to(x, -10, 10) * g.slope * g.sigmoid.complement);
  }
  if constexpr (kind == K::tanh) {
    const Sigmoid<T> s(x + x);
    return 4.0f * s.value * s.complement;
  }
}

// Calls f<kind>() for each function but `none` and `relu`.
template <class F>
DDP_HOST_DEVICE void with_kind(Activation::Kind kind, const F& f) {
  using K = Activation::Kind;
  switch (kind) {
    case K::none:
    case K::relu: return;
    case K::relu6: return f.template operator()<K::relu6>();
    case K::leaky_relu: return f.template operator()<K::leaky_relu>();
    case K::sigmoid: return f.template operator()<K::sigmoid>();
    case K::hard_sigmoid: return f.template operator()<K::hard_sigmoid>();
    case K::silu: return f.template operator()<K::silu>();
    case K::hard_swish: return f.template operator()<K::hard_swish>();
    case K::gelu: return f.template operator()<K::gelu>();
    case K::gelu_tanh: return f.template operator()<K::gelu_tanh>();
    case K::tanh: return f.template operator()<K::tanh>();
  }
}

}  // namespace ddp
