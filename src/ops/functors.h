// Elementwise formulas that all backends share. T is float or a vector of floats for activations, and float or double
// for sums, because the CPU sums in double.
#pragma once

#include "core/batch_plan.h"
#include "core/philox.h"
#include "ops/batch_mix.h"
#include "ops/device_batch.h"
#include "ops/dropout.h"
#include "ops/host_device.h"
#include "ops/input_transform.h"

#include <array>
#include <cmath>
#include <cstdint>

namespace ddp {

// NaN stays NaN, as in PyTorch: a step that computes it must fail.
template <class T>
struct ReluOf {
  DDP_HOST_DEVICE T operator()(T x) const { return x <= T{} ? T{} : x; }
};
using Relu = ReluOf<float>;

template <class T>
struct ReluGradientOf {
  DDP_HOST_DEVICE T operator()(T y, T dy) const { return y <= T{} ? T{} : dy; }
};
using ReluGradient = ReluGradientOf<float>;

// The value of a pixel (ops/input_transform.h). In double the product is exact, so all backends give the same bits,
// with and without fused multiply-add.
struct Normalize {
  float scale, shift;

  DDP_HOST_DEVICE Normalize(const PixelScale& s, int64_t channel)
      : scale(entry(s.scale, channel)), shift(entry(s.shift, channel)) {}
  DDP_HOST_DEVICE float operator()(uint8_t pixel) const {
    return static_cast<float>(static_cast<double>(pixel) * scale + shift);
  }

 private:
  // Without an array index, which would move a kernel's argument to memory.
  DDP_HOST_DEVICE static float entry(const std::array<float, 3>& of, int64_t channel) {
    return channel == 0 ? of[0] : channel == 1 ? of[1] : of[2];
  }
};

// The update rules of ops/optimizer.h for one element. `decay` is 0 for tensors without weight decay.
struct SgdRule {
  float lr, gradient_scale, momentum;
  bool nesterov, decoupled;

  DDP_HOST_DEVICE void operator()(float& w, float g, float& m, float decay) const {
    const float d = decayed(w, g, decay);
    m = momentum * m + d;
    w -= lr * (nesterov ? d + momentum * m : m);
  }
  DDP_HOST_DEVICE void operator()(float& w, float g, float decay) const {  // momentum 0: no state
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

// The learning rate factor of one tensor (the local learning rate of LARS), from its sums of squares.
template <class T>
struct LarsFactorOf {
  T trust, decay, gradient_scale;

  DDP_HOST_DEVICE T operator()(T weight_squares, T gradient_squares) const {
    const T w = std::sqrt(weight_squares), g = std::sqrt(gradient_squares) * std::abs(gradient_scale);
    return w > 0 && g > 0 ? trust * w / (g + decay * w) : T{1};
  }
};

// `rate_factor` is the result of LarsFactorOf for the tensor, or 1.
struct LarsRule {
  float lr, gradient_scale, momentum;

  DDP_HOST_DEVICE void operator()(float& w, float g, float& m, float decay, float rate_factor) const {
    m = momentum * m + lr * rate_factor * (g * gradient_scale + decay * w);
    w -= m;
  }
};

// One element of an average, from there to a new value by `rate`: the branches of torch.lerp.
struct Lerp {
  float rate;
  DDP_HOST_DEVICE float operator()(float average, float value) const {
    if (rate == 1) return value;
    const float difference = value - average;
    return rate < 0.5f ? average + rate * difference : value - difference * (1 - rate);
  }
};

// The factor that clips gradients, from the sum of their squares: 0 for an infinite sum, 1 for NaN.
struct ClipScale {
  float limit;
  DDP_HOST_DEVICE float operator()(float squares, float scale) const {
    const float factor = limit / (scale * std::sqrt(squares) + 1e-6f);
    return scale * (factor < 1 ? factor : 1);
  }
};

// The factor that corrects a gradient of `planned` samples of which `seen` have weight.
struct SeenScale {
  DDP_HOST_DEVICE float operator()(float planned, float seen) const { return seen > 0 ? planned / seen : 1; }
};

// Mean and variance of a channel from the sums of batch norm. Rounding can make the variance negative; it is then set
// to 0. NaN stays NaN.
template <class T>
struct MomentsOf {
  T offset;    // mean minus the center of the sums
  T variance;  // biased: divided by count

  DDP_HOST_DEVICE MomentsOf(T s1, T s2, T count) : offset(s1 / count), variance(s2 / count - offset * offset) {
    if (variance < 0) variance = 0;
  }
};

// Updates the running statistics of one channel. Its running mean was the center of the sums.
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

// d loss / d x. mean_t1 and mean_t2 are t1 / count and t2 / count.
template <class T>
struct BatchNormGradientOf {
  T mean, inverse_deviation, factor, mean_t1, mean_t2;
  DDP_HOST_DEVICE T operator()(T x, T dy) const {
    return factor * (dy - mean_t1 - (x - mean) * inverse_deviation * mean_t2);
  }
};
using BatchNormGradient = BatchNormGradientOf<float>;

template <class T>
struct ScaleAndShiftOf {
  T factor, shift;
  DDP_HOST_DEVICE T operator()(T x) const { return x * factor + shift; }
};
using ScaleAndShift = ScaleAndShiftOf<float>;

// The factor of dropout (ops/dropout.h) for element e of a sample. `word` is word e % 4 of its random bits.
struct DropoutFactor {
  uint32_t threshold;  // rate * 2^32
  float keep_scale;    // 1 / (1 - rate)
  DDP_HOST_DEVICE float operator()(uint32_t word) const { return word >= threshold ? keep_scale : 0.0f; }
};
DDP_HOST_DEVICE DropoutFactor dropout_factor(const Dropout& d) {
  return {static_cast<uint32_t>(static_cast<double>(d.rate) * 0x1p32), 1 / (1 - d.rate)};
}
// The last word of the Philox counter of dropout.
DDP_HOST_DEVICE uint32_t dropout_operation(const Dropout& d) {
  return static_cast<uint32_t>(Operation::dropout) + 256 * d.layer;
}

// The tokens of a batch (ops/device_batch.h), by position over all samples.
struct BatchTokens {
  const int32_t *tokens, *ids;
  int64_t length;  // of a sequence; 0: the samples are images

  DDP_HOST_DEVICE int64_t id(int64_t n) const { return ids ? ids[n] : n; }
  DDP_HOST_DEVICE int32_t input(int64_t position) const {
    return tokens[id(position / length) * (length + 1) + position % length];
  }
  DDP_HOST_DEVICE int32_t label(int64_t position) const {
    return tokens[id(position / length) * (length + 1) + position % length + 1];
  }
};
inline BatchTokens tokens_of(const DeviceBatch& batch) { return {batch.tokens(), batch.ids, batch.sequence_length}; }

// The labels of one sample. A mixed sample has the share `lambda` of its own label and 1 - lambda of the other one.
struct SampleLabels {
  int32_t own = kExcludedLabel, other = kExcludedLabel;  // other: kExcludedLabel if there is none
  float lambda = 1;

  DDP_HOST_DEVICE bool mixed() const { return other != kExcludedLabel; }
};
// Of a batch (ops/device_batch.h).
struct BatchLabels {
  const int32_t* labels;
  const BatchMix* mix;
  const float* class_weights;
  BatchTokens tokens;

  // Of sample i of `size` ones; of tokens, of position i.
  DDP_HOST_DEVICE SampleLabels of(int64_t i, int64_t size) const {
    if (tokens.length > 0) {
      const bool excluded = labels[tokens.id(i / tokens.length)] == kExcludedLabel;
      return {excluded ? kExcludedLabel : tokens.label(i)};
    }
    SampleLabels of{labels[tokens.id(i)]};
    if (!mix) return of;
    const int32_t other = labels[tokens.id(partner_of(i, size))];
    if (other == kExcludedLabel || other == of.own) return of;
    of.other = other;
    of.lambda = mix->lambda;
    return of;
  }
};
inline BatchLabels labels_of(const DeviceBatch& batch) {
  return {batch.labels, batch.mix, batch.class_weights, tokens_of(batch)};
}

// d loss / d logit of one class, from its exp(z - max) and the reciprocal of the sum of exp(z - max) over classes.
struct SoftmaxGradient {
  float scale;
  float smoothing_share = 0;  // smoothing / classes
  float label_target = 1;     // 1 - smoothing + smoothing_share

  // The targets of a sample's own label and of its other one.
  DDP_HOST_DEVICE float own_target(const SampleLabels& of) const {
    return of.mixed() ? smoothing_share + (label_target - smoothing_share) * of.lambda : label_target;
  }
  DDP_HOST_DEVICE float other_target(const SampleLabels& of) const {
    return smoothing_share + (label_target - smoothing_share) * (1 - of.lambda);
  }
  DDP_HOST_DEVICE float operator()(float exp_z, float reciprocal_sum, float target) const {
    return (exp_z * reciprocal_sum - target) * scale;
  }
};

// The term of one element in the hash of its tensor (ops/tensor_hash.h).
struct ElementHash {
  DDP_HOST_DEVICE uint64_t operator()(int64_t index, uint32_t bits) const {
    uint64_t z = (static_cast<uint64_t>(index) << 32 | bits) + 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
};

struct IsNonfinite {
  DDP_HOST_DEVICE bool operator()(uint32_t bits) const { return (bits & 0x7f800000u) == 0x7f800000u; }
};

}  // namespace ddp
