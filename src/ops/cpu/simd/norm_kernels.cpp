// The passes of batch norm. Rows are processed in strips that fit in the L1 cache, and a strip in groups of 16 columns,
// whose statistics stay in registers. Sums use kChains independent accumulators, which hides the latency of additions.
#include "ops/cpu/simd/tables.h"
#include "ops/cpu/simd/vectors.h"

namespace ddp::DDP_ISA {
namespace {

constexpr int kChains = 4;

// Calls f(vector length, first row, rows, k) for the strips and column groups.
template <class F>
inline void each_strip(long rows, long width, F&& f) {
  const long strip = width >= 128 ? 8 : 1024 / width;
  for (long first = 0; first < rows; first += strip) {
    const long count = rows - first < strip ? rows - first : strip;
    each_column(width, [&](auto length, long k) { f(length, first, count, k); });
  }
}

// Calls add(chain, offset) for the element at column k of each row. Rows are distributed evenly over the chains.
template <class F>
inline void each_row(long first, long rows, long width, long k, F&& add) {
  long at = first * width + k, r = 0;
  for (; r + kChains <= rows; r += kChains) {
#pragma GCC unroll 4
    for (int chain = 0; chain < kChains; ++chain, at += width) add(chain, at);
  }
  for (; r < rows; ++r, at += width) add(0, at);
}

template <int L>
inline void add_chains(const Vector<L> (&chains)[kChains], float* to) {
  store<L>(to, load<L>(to) + ((chains[0] + chains[1]) + (chains[2] + chains[3])));
}

template <class T>
void norm_sum(const NormSum& a) {
  const T* x = static_cast<const T*>(a.x);
  each_strip(a.rows, a.width, [&](auto length, long first, long rows, long k) {
    constexpr int L = length;
    const Vector<L> center = load<L>(a.center + k);
    Vector<L> s1[kChains] = {}, s2[kChains] = {};
    each_row(first, rows, a.width, k, [&](int chain, long at) {
      const Vector<L> v = load<L>(x + at) - center;
      s1[chain] += v;
      s2[chain] += v * v;
    });
    add_chains<L>(s1, a.s1 + k);
    add_chains<L>(s2, a.s2 + k);
  });
}

template <class T, bool kSkip, bool kRelu>
void norm_forward_as(const NormForward& a) {
  const T* x = static_cast<const T*>(a.x);
  const T* skip = static_cast<const T*>(a.skip);
  T* y = static_cast<T*>(a.y);
  each_strip(a.rows, a.width, [&](auto length, long first, long rows, long k) {
    constexpr int L = length;
    const BatchNormForwardOf<Vector<L>> normalized{load<L>(a.mean + k), load<L>(a.factor + k), load<L>(a.shift + k)};
    each_row(first, rows, a.width, k, [&](int, long at) {
      Vector<L> v = normalized(load<L>(x + at));
      if constexpr (kSkip) v += load<L>(skip + at);
      if constexpr (kRelu) v = ReluOf<Vector<L>>{}(v);
      store<L>(y + at, v);
    });
  });
}

template <class T>
void norm_forward(const NormForward& a) {
  if (a.skip) return a.relu ? norm_forward_as<T, true, true>(a) : norm_forward_as<T, true, false>(a);
  return a.relu ? norm_forward_as<T, false, true>(a) : norm_forward_as<T, false, false>(a);
}

// Sums the stored, rounded dy, because backward reads that.
template <class T, bool kRelu, bool kMore>
void norm_backward_sum_as(const NormBackwardSum& a) {
  const T* x = static_cast<const T*>(a.x);
  const T* y = static_cast<const T*>(a.y);
  const T* more = static_cast<const T*>(a.more);
  T* dy = static_cast<T*>(a.dy);
  each_strip(a.rows, a.width, [&](auto length, long first, long rows, long k) {
    constexpr int L = length;
    const Vector<L> mean = load<L>(a.mean + k);
    Vector<L> t1[kChains] = {}, t2[kChains] = {};
    each_row(first, rows, a.width, k, [&](int chain, long at) {
      Vector<L> g = load<L>(dy + at);
      if constexpr (kMore) g += load<L>(more + at);
      if constexpr (kRelu) g = ReluGradientOf<Vector<L>>{}(load<L>(y + at), g);
      if constexpr (kMore || kRelu) store<L>(dy + at, g);
      if constexpr (kMore && sizeof(T) < sizeof(float)) g = load<L>(dy + at);
      t1[chain] += g;
      t2[chain] += g * (load<L>(x + at) - mean);
    });
    add_chains<L>(t1, a.t1 + k);
    add_chains<L>(t2, a.t2 + k);
  });
}

template <class T>
void norm_backward_sum(const NormBackwardSum& a) {
  if (a.y) return a.more ? norm_backward_sum_as<T, true, true>(a) : norm_backward_sum_as<T, true, false>(a);
  return a.more ? norm_backward_sum_as<T, false, true>(a) : norm_backward_sum_as<T, false, false>(a);
}

template <class T>
void norm_backward(const NormBackward& a) {
  const T* x = static_cast<const T*>(a.x);
  const T* dy = static_cast<const T*>(a.dy);
  T* dx = static_cast<T*>(a.dx);
  each_strip(a.rows, a.width, [&](auto length, long first, long rows, long k) {
    constexpr int L = length;
    const BatchNormGradientOf<Vector<L>> gradient{load<L>(a.mean + k), load<L>(a.inverse_deviation + k),
                                                  load<L>(a.factor + k), load<L>(a.mean_t1 + k),
                                                  load<L>(a.mean_t2 + k)};
    each_row(first, rows, a.width, k,
             [&](int, long at) { store<L>(dx + at, gradient(load<L>(x + at), load<L>(dy + at))); });
  });
}

template <class T, bool kRelu, bool kMore>
void norm_scale_as(const NormScale& a) {
  const T* y = static_cast<const T*>(a.y);
  const T* more = static_cast<const T*>(a.more);
  T* dy = static_cast<T*>(a.dy);
  T* dx = static_cast<T*>(a.dx);
  each_strip(a.rows, a.width, [&](auto length, long first, long rows, long k) {
    constexpr int L = length;
    const Vector<L> factor = load<L>(a.factor + k);
    each_row(first, rows, a.width, k, [&](int, long at) {
      Vector<L> g = load<L>(dy + at);
      if constexpr (kMore) g += load<L>(more + at);
      if constexpr (kRelu) g = ReluGradientOf<Vector<L>>{}(load<L>(y + at), g);
      if constexpr (kMore || kRelu) store<L>(dy + at, g);
      if constexpr (kMore && sizeof(T) < sizeof(float)) g = load<L>(dy + at);
      if (dx) store<L>(dx + at, factor * g);
    });
  });
}

template <class T>
void norm_scale(const NormScale& a) {
  if (a.y) return a.more ? norm_scale_as<T, true, true>(a) : norm_scale_as<T, true, false>(a);
  return a.more ? norm_scale_as<T, false, true>(a) : norm_scale_as<T, false, false>(a);
}

template <class T>
constexpr NormKernels kNorm = {norm_sum<T>, norm_forward<T>, norm_backward_sum<T>, norm_backward<T>, norm_scale<T>};

}  // namespace

const NormKernels kNormF32 = kNorm<float>, kNormBf16 = kNorm<uint16_t>;

}  // namespace ddp::DDP_ISA
