// The passes of batch norm. Rows are processed in strips that fit in the L1 cache, and a strip in groups of 16 columns,
// whose statistics stay in registers. Sums use kChains independent accumulators, which hides the latency of additions.
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

template <int L>
inline void add_chains(const Vector<L> (&chains)[kChains], float* to) {
  store<L>(to, load<L>(to) + ((chains[0] + chains[1]) + (chains[2] + chains[3])));
}

template <class T>
void norm_sum(const NormSum& a) {
  const T* x = static_cast<const T*>(a.x);
  each_strip(a.rows, a.width, kStrip, [&](auto length, long first, long rows, long k) {
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
  each_strip(a.rows, a.width, kStrip, [&](auto length, long first, long rows, long k) {
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

// Sums the stored, rounded dy, because backward reads that.
template <class T, bool kRelu, bool kMore>
void norm_backward_sum_as(const NormBackwardSum& a) {
  const T* x = static_cast<const T*>(a.x);
  const T* y = static_cast<const T*>(a.y);
  const T* more = static_cast<const T*>(a.more);
  T* dy = static_cast<T*>(a.dy);
  each_strip(a.rows, a.width, kStrip, [&](auto length, long first, long rows, long k) {
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
  each_strip(a.rows, a.width, kStrip, [&](auto length, long first, long rows, long k) {
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
  each_strip(a.rows, a.width, kStrip, [&](auto length, long first, long rows, long k) {
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

const NormKernels kNormF32 = kNorm<float>, kNormBf16 = kNorm<uint16_t>;

}  // namespace ddp::DDP_ISA
