// The passes of batch norm. Rows are processed in strips that fit in the L1 cache, and a strip in panels of columns,
// whose statistics stay in registers. A panel is as wide as possible, up to four vectors, so that memory is read in
// order. Sums have kChains independent accumulators, which hides the latency of additions. All names have internal
// linkage (kernels.h).
#pragma once

#include "ops/cpu/simd/tables.h"
#include "ops/cpu/simd/vectors.h"

namespace ddp::DDP_ISA {
namespace {

constexpr int kChains = 4;
constexpr long kStrip = 8;  // rows of a strip, at least

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

// The same for a panel of N vectors: add(vector, chain, offset). With several vectors, each has one chain.
template <int L, int N, class F>
inline void each_row_of(long first, long rows, long width, long k, F&& add) {
  if constexpr (N == 1) {
    each_row(first, rows, width, k, [&](int chain, long at) { add(0, chain, at); });
  } else {
    long at = first * width + k;
    for (long r = 0; r < rows; ++r, at += width) {
#pragma GCC unroll 4
      for (int v = 0; v < N; ++v) add(v, 0, at + v * L);
    }
  }
}

template <int L>
inline void add_chains(const Vector<L> (&chains)[kChains], float* to) {
  store<L>(to, load<L>(to) + ((chains[0] + chains[1]) + (chains[2] + chains[3])));
}

// Sums of the columns of a panel.
template <int L, int N>
struct PanelSums {
  Vector<L> chains[N][N == 1 ? kChains : 1] = {};

  void add_to(float* to) const {
    for (int v = 0; v < N; ++v) {
      if constexpr (N == 1)
        add_chains<L>(chains[v], to);
      else
        store<L>(to + v * L, load<L>(to + v * L) + chains[v][0]);
    }
  }
};

// Calls f(vector length, vectors of the panel, first row, rows, k) for the panels of each strip.
template <class F>
inline void each_panel(long rows, long width, F&& f) {
  constexpr std::integral_constant<int, 16> full{};
  constexpr std::integral_constant<int, 4> four{};
  constexpr std::integral_constant<int, 1> one{};
  const long strip = width >= 1024 / kStrip ? kStrip : 1024 / width;
  for (long first = 0; first < rows; first += strip) {
    const long count = rows - first < strip ? rows - first : strip;
    long k = 0;
    for (; k + 64 <= width; k += 64) f(full, four, first, count, k);
    each_column(width - k, [&](auto length, long rest) { f(length, one, first, count, k + rest); });
  }
}

template <class T>
void norm_sum(const NormSum& a) {
  const T* x = static_cast<const T*>(a.x);
  each_panel(a.rows, a.width, [&](auto length, auto vectors, long first, long rows, long k) {
    constexpr int L = length, N = vectors;
    Vector<L> center[N];
    for (int v = 0; v < N; ++v) center[v] = load<L>(a.center + k + v * L);
    PanelSums<L, N> s1, s2;
    each_row_of<L, N>(first, rows, a.width, k, [&](int v, int chain, long at) {
      const Vector<L> value = load<L>(x + at) - center[v];
      s1.chains[v][chain] += value;
      s2.chains[v][chain] += value * value;
    });
    s1.add_to(a.s1 + k);
    s2.add_to(a.s2 + k);
  });
}

template <class T, bool kSkip, bool kRelu>
void norm_forward_as(const NormForward& a) {
  const T* x = static_cast<const T*>(a.x);
  const T* skip = static_cast<const T*>(a.skip);
  T* y = static_cast<T*>(a.y);
  each_panel(a.rows, a.width, [&](auto length, auto vectors, long first, long rows, long k) {
    constexpr int L = length, N = vectors;
    BatchNormForwardOf<Vector<L>> normalized[N];
    for (int v = 0; v < N; ++v)
      normalized[v] = {load<L>(a.mean + k + v * L), load<L>(a.factor + k + v * L), load<L>(a.shift + k + v * L)};
    each_row_of<L, N>(first, rows, a.width, k, [&](int v, int, long at) {
      Vector<L> value = normalized[v](load<L>(x + at));
      if constexpr (kSkip) value += load<L>(skip + at);
      if constexpr (kRelu) value = ReluOf<Vector<L>>{}(value);
      store<L>(y + at, value);
    });
  });
}

// At most 1024 values, for a function that is not a ReLU: it takes many values at once.
struct ActivatedTile {
  alignas(64) float values[1024];
  long first, rows, column, columns;  // of the matrix

  // Calls pass(length, k)(r) for row r and the columns from `k` of the tile. Wide tiles are swept row by row, so that
  // memory is read in order; narrow tiles column by column, so that the statistics stay in registers.
  template <class F>
  void sweep(const F& pass) {
    const long count = rows, width = columns;
    if (width <= 16)
      return each_column(width, [&](auto length, long k) {
        const auto at_row = pass(length, k);
        for (long r = 0; r < count; ++r) at_row(r);
      });
    for (long r = 0; r < count; ++r) each_column(width, [&](auto length, long k) { pass(length, k)(r); });
  }

  // values = normalized(x)
  template <class T, class Norm>
  void fill(const Norm& a, const T* x) {
    sweep([&](auto length, long k) {
      constexpr int L = length;
      const long c = column + k;
      const BatchNormForwardOf<Vector<L>> normalized{load<L>(a.mean + c), load<L>(a.factor + c), load<L>(a.shift + c)};
      const T* const from = x + first * a.width + c;
      return [=, to = values + k, step = columns, width = a.width](long r) {
        store<L>(to + r * step, normalized(load<L>(from + r * width)));
      };
    });
    for (long i = rows * columns; i % 16 != 0; ++i) values[i] = 0;
  }
  long padded() const { return (rows * columns + 15) / 16 * 16; }
};

// Calls f(tile) for the tiles of a matrix.
template <class F>
inline void each_tile(long rows, long width, F&& f) {
  const long columns = width < 128 ? width : 128, strip = 1024 / columns;
  ActivatedTile tile;
  for (tile.first = 0; tile.first < rows; tile.first += strip)
    for (tile.column = 0; tile.column < width; tile.column += columns) {
      tile.rows = rows - tile.first < strip ? rows - tile.first : strip;
      tile.columns = width - tile.column < columns ? width - tile.column : columns;
      f(tile);
    }
}

template <class T>
void norm_forward_activated(const NormForward& a) {
  each_tile(a.rows, a.width, [&](ActivatedTile& tile) {
    tile.fill(a, static_cast<const T*>(a.x));
    kActivationFunctions.value(*a.activation, tile.values, tile.padded());
    tile.sweep([&](auto length, long k) {
      constexpr int L = length;
      T* const y = static_cast<T*>(a.y) + tile.first * a.width + tile.column + k;
      return [=, from = tile.values + k, step = tile.columns, width = a.width](long r) {
        store<L>(y + r * width, load<L>(from + r * step));
      };
    });
  });
}

template <class T>
void norm_forward(const NormForward& a) {
  if (a.activation) return norm_forward_activated<T>(a);
  if (a.skip) return a.relu ? norm_forward_as<T, true, true>(a) : norm_forward_as<T, true, false>(a);
  return a.relu ? norm_forward_as<T, false, true>(a) : norm_forward_as<T, false, false>(a);
}

// Completes the gradient of a ReLU, or of nothing, at an offset: dy + more behind the mask. Leaves it in dy if it is
// another one, and returns what dy stores, which is rounded.
template <class T, int L, bool kRelu, bool kMore>
inline Vector<L> complete_gradient(const T* y, const T* more, T* dy, long at) {
  Vector<L> g = load<L>(dy + at);
  if constexpr (kMore) g += load<L>(more + at);
  if constexpr (kRelu) g = ReluGradientOf<Vector<L>>{}(load<L>(y + at), g);
  if constexpr (kMore) {
    store<L>(dy + at, g);
    return load<L>(dy + at);
  }
  if constexpr (kRelu) store_exact<L>(dy + at, g);
  return g;
}

// Sums the stored, rounded dy, because backward reads that.
template <class T, bool kRelu, bool kMore>
void norm_backward_sum_as(const NormBackwardSum& a) {
  const T* x = static_cast<const T*>(a.x);
  const T* y = static_cast<const T*>(a.y);
  const T* more = static_cast<const T*>(a.more);
  T* dy = static_cast<T*>(a.dy);
  each_panel(a.rows, a.width, [&](auto length, auto vectors, long first, long rows, long k) {
    constexpr int L = length, N = vectors;
    Vector<L> mean[N];
    for (int v = 0; v < N; ++v) mean[v] = load<L>(a.mean + k + v * L);
    PanelSums<L, N> t1, t2;
    each_row_of<L, N>(first, rows, a.width, k, [&](int v, int chain, long at) {
      const Vector<L> g = complete_gradient<T, L, kRelu, kMore>(y, more, dy, at);
      t1.chains[v][chain] += g;
      t2.chains[v][chain] += g * (load<L>(x + at) - mean[v]);
    });
    t1.add_to(a.t1 + k);
    t2.add_to(a.t2 + k);
  });
}

template <class T, bool kMore>
void norm_backward_sum_activated(const NormBackwardSum& a) {
  const T* x = static_cast<const T*>(a.x);
  const T* more = static_cast<const T*>(a.more);
  T* dy = static_cast<T*>(a.dy);
  each_tile(a.rows, a.width, [&](ActivatedTile& tile) {
    tile.fill(a, x);
    kActivationFunctions.derivative(*a.activation, tile.values, tile.padded());
    tile.sweep([&](auto length, long k) {
      constexpr int L = length;
      const long begin = tile.first * a.width + tile.column + k;
      return [=, slopes = tile.values + k, step = tile.columns, width = a.width](long r) {
        const long at = begin + r * width;
        Vector<L> g = load<L>(dy + at);
        if constexpr (kMore) g += load<L>(more + at);
        store<L>(dy + at, g * load<L>(slopes + r * step));
        store<L>(slopes + r * step, load<L>(dy + at));
      };
    });
    each_column(tile.columns, [&](auto length, long k) {
      constexpr int L = length;
      const long c = tile.column + k;
      const Vector<L> mean = load<L>(a.mean + c);
      const float* from = tile.values + k;
      const long step = tile.columns;
      Vector<L> t1[kChains] = {}, t2[kChains] = {};
      each_row(tile.first, tile.rows, a.width, c, [&](int chain, long at) {
        const Vector<L> g = load<L>(from);
        from += step;
        t1[chain] += g;
        t2[chain] += g * (load<L>(x + at) - mean);
      });
      add_chains<L>(t1, a.t1 + c);
      add_chains<L>(t2, a.t2 + c);
    });
  });
}

template <class T>
void norm_backward_sum(const NormBackwardSum& a) {
  if (a.activation) return a.more ? norm_backward_sum_activated<T, true>(a) : norm_backward_sum_activated<T, false>(a);
  if (a.y) return a.more ? norm_backward_sum_as<T, true, true>(a) : norm_backward_sum_as<T, true, false>(a);
  return a.more ? norm_backward_sum_as<T, false, true>(a) : norm_backward_sum_as<T, false, false>(a);
}

template <class T>
void norm_backward(const NormBackward& a) {
  const T* x = static_cast<const T*>(a.x);
  const T* dy = static_cast<const T*>(a.dy);
  T* dx = static_cast<T*>(a.dx);
  each_panel(a.rows, a.width, [&](auto length, auto vectors, long first, long rows, long k) {
    constexpr int L = length, N = vectors;
    BatchNormGradientOf<Vector<L>> gradient[N];
    for (int v = 0; v < N; ++v) {
      const long c = k + v * L;
      gradient[v] = {load<L>(a.mean + c), load<L>(a.inverse_deviation + c), load<L>(a.factor + c),
                     load<L>(a.mean_t1 + c), load<L>(a.mean_t2 + c)};
    }
    each_row_of<L, N>(first, rows, a.width, k,
                      [&](int v, int, long at) { store<L>(dx + at, gradient[v](load<L>(x + at), load<L>(dy + at))); });
  });
}

template <class T, bool kRelu, bool kMore>
void norm_scale_as(const NormScale& a) {
  const T* y = static_cast<const T*>(a.y);
  const T* more = static_cast<const T*>(a.more);
  T* dy = static_cast<T*>(a.dy);
  T* dx = static_cast<T*>(a.dx);
  each_strip(a.rows, a.width, kStrip, [&](auto length, long first, long rows, long k) {
    constexpr int L = length;
    const Vector<L> factor = load<L>(a.factor + k);
    each_row(first, rows, a.width, k, [&](int, long at) {
      const Vector<L> g = complete_gradient<T, L, kRelu, kMore>(y, more, dy, at);
      if (dx) store<L>(dx + at, factor * g);
    });
  });
}

template <class T, bool kMore>
void norm_scale_activated(const NormScale& a) {
  const T* more = static_cast<const T*>(a.more);
  T* dy = static_cast<T*>(a.dy);
  T* dx = static_cast<T*>(a.dx);
  each_tile(a.rows, a.width, [&](ActivatedTile& tile) {
    tile.fill(a, static_cast<const T*>(a.x));
    kActivationFunctions.derivative(*a.activation, tile.values, tile.padded());
    tile.sweep([&](auto length, long k) {
      constexpr int L = length;
      const long begin = tile.first * a.width + tile.column + k;
      const Vector<L> factor = load<L>(a.factor + tile.column + k);
      return [=, slopes = tile.values + k, step = tile.columns, width = a.width](long r) {
        const long at = begin + r * width;
        Vector<L> g = load<L>(dy + at);
        if constexpr (kMore) g += load<L>(more + at);
        g *= load<L>(slopes + r * step);
        if (kMore || !dx) {
          store<L>(dy + at, g);
          g = load<L>(dy + at);
        }
        if (dx) store<L>(dx + at, factor * g);
      };
    });
  });
}

template <class T>
void norm_scale(const NormScale& a) {
  if (a.activation) return a.more ? norm_scale_activated<T, true>(a) : norm_scale_activated<T, false>(a);
  if (a.y) return a.more ? norm_scale_as<T, true, true>(a) : norm_scale_as<T, true, false>(a);
  return a.more ? norm_scale_as<T, false, true>(a) : norm_scale_as<T, false, false>(a);
}

template <class T>
constexpr NormKernels kNorm = {norm_sum<T>, norm_forward<T>, norm_backward_sum<T>, norm_backward<T>, norm_scale<T>};

}  // namespace
}  // namespace ddp::DDP_ISA
