// Vectors run over samples, so weights are broadcast scalars, and all channel counts are equally efficient. `sum` keeps
// kTile x P accumulators in registers; each step loads P vectors and broadcasts kTile weights for kTile * P
// multiply-adds. `weight_gradient` keeps kTile x Q accumulators (outputs x taps of a kernel row) over a piece of a
// block of samples, and then adds them to vectors of sums. The lanes are summed once, after all blocks.
#include "ops/cpu/simd/tables.h"
#include "ops/cpu/simd/vectors.h"

namespace ddp::DDP_ISA {
namespace {

// Accumulators that the registers of each set can hold.
#if defined(__AVX512F__)
constexpr int kMaxPixels = 5, kMaxTaps = 5;
#elif defined(__AVX2__)
constexpr int kMaxPixels = 2, kMaxTaps = 2;
#else
constexpr int kMaxPixels = 1, kMaxTaps = 1;
#endif

inline float total(const Vector<4>& v) { return (v[0] + v[2]) + (v[1] + v[3]); }
inline float total(const Vector<8>& v) {
  return total(__builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7));
}
inline float total(const Vector<16>& v) {
  return total(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
               __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
}

template <int L, int P>
void sum_tile(const LaneSum& a, const float* x, float* y) {
  using V = Vector<L>;
  V sum[kTile][P] = {};
  const long x_pixel = a.x_pixel, x_step = a.x_step, count = a.count;
  for (long s = 0; s < a.segments; ++s) {
    const float* xs = x + s * a.x_segment;
    const float* ws = a.w + s * a.w_segment;
    for (long k = 0; k < count; ++k, xs += x_step, ws += kTile) {
      V v[P];
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) v[p] = load<L>(xs + p * x_pixel);
#pragma GCC unroll 8
      for (int r = 0; r < kTile; ++r) {
#pragma GCC unroll 8
        for (int p = 0; p < P; ++p) sum[r][p] += ws[r] * v[p];
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kTile; ++r) {
    if (r >= a.rows) continue;
    const float bias = a.bias ? a.bias[r] : 0.0f;
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) {
      float* to = y + p * a.y_pixel + r * a.y_row;
      V v = sum[r][p] + bias;
      if (a.add) v += load<L>(to);
      if (a.relu) v = ReluOf<V>{}(v);
      store<L>(to, v);
    }
  }
}

template <int L, int P>
void sum_run(const LaneSum& a, long pixels, const float* x, float* y) {
  if constexpr (P > 1) {
    if (pixels < P) return sum_run<L, P - 1>(a, pixels, x, y);
  }
  sum_tile<L, P>(a, x, y);
}

template <int L>
void sum(const LaneSum& a) {
  const long tiles = (a.pixels + kMaxPixels - 1) / kMaxPixels;
  for (long t = 0; t < tiles; ++t) {
    const long first = a.pixels * t / tiles, end = a.pixels * (t + 1) / tiles;
    sum_run<L, kMaxPixels>(a, end - first, a.x + first * a.x_pixel, a.y + first * a.y_pixel);
  }
}

template <int L, int R, int Q>
void weight_tile(const LaneWeightGradient& a, long out) {
  using V = Vector<L>;
  V sum[R][Q] = {};
  for (long i = 0; i < a.rows; ++i) {
    const float* x = a.x + i * a.x_row;
    const float* dy = a.dy + i * a.dy_row + out * L;
    for (long j = 0; j < a.columns; ++j, x += a.x_column, dy += a.dy_column) {
      V v[Q];
#pragma GCC unroll 8
      for (int q = 0; q < Q; ++q) v[q] = load<L>(x + q * L);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const V d = load<L>(dy + r * L);
#pragma GCC unroll 8
        for (int q = 0; q < Q; ++q) sum[r][q] += d * v[q];
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) {
      float* to = a.sums + (out + r) * a.sums_out + q * L;
      store<L>(to, load<L>(to) + sum[r][q]);
    }
  }
}

template <int L, int Q>
void weight_taps(const LaneWeightGradient& a) {
  if constexpr (Q > 1) {
    if (a.taps < Q) return weight_taps<L, Q - 1>(a);
  }
  if (a.outs == kTile) return weight_tile<L, kTile, Q>(a, 0);
  for (int out = 0; out < a.outs; ++out) weight_tile<L, 1, Q>(a, out);
}

template <int L>
void weight_gradient(const LaneWeightGradient& a) {
  weight_taps<L, kMaxTaps>(a);
}

template <int L, int R>
void bias_tile(const LaneBiasGradient& a, long out) {
  using V = Vector<L>;
  V sum[R] = {};
  for (long i = 0; i < a.pixels; ++i) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const long at = i * a.pixel + (out + r) * L;
      V d = load<L>(a.dy + at);
      if (a.y) {
        d = ReluGradientOf<V>{}(load<L>(a.y + at), d);
        store<L>(a.dy + at, d);
      }
      sum[r] += d;
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) a.db[out + r] = total(sum[r]) + (a.add ? a.db[out + r] : 0.0f);
}

template <int L>
void bias_gradient(const LaneBiasGradient& a) {
  if (a.outs == kTile) return bias_tile<L, kTile>(a, 0);
  for (int out = 0; out < a.outs; ++out) bias_tile<L, 1>(a, out);
}

// The sums of adjacent pairs: of a, then of b. Three rounds of this on eight vectors give their eight sums, in order.
inline Vector<8> fold(const Vector<8>& a, const Vector<8>& b) {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14) +
         __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
}

inline Vector<8> fold_to_eight(const Vector<8>& v) { return v; }
inline Vector<8> fold_to_eight(const Vector<16>& v) {
  return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
         __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
}

template <int L>
void sum_lanes(const float* sums, long count, float* out, bool add) {
  long i = 0;
  for (; i + 8 <= count; i += 8) {
    const auto at = [&](int k) { return fold_to_eight(load<L>(sums + (i + k) * L)); };
    auto eight = fold(fold(fold(at(0), at(1)), fold(at(2), at(3))), fold(fold(at(4), at(5)), fold(at(6), at(7))));
    if (add) eight += load<8>(out + i);
    store<8>(out + i, eight);
  }
  for (; i < count; ++i) out[i] = total(load<L>(sums + i * L)) + (add ? out[i] : 0.0f);
}

template <int L>
constexpr LaneKernels kKernelsOf = {kMaxTaps, sum<L>, weight_gradient<L>, bias_gradient<L>, sum_lanes<L>};

}  // namespace

const LaneKernels kLanes8 = kKernelsOf<8>, kLanes16 = kKernelsOf<16>;

}  // namespace ddp::DDP_ISA
