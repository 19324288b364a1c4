// A block of kColumns outputs of a row, and all taps of a kernel row, share the loads of x: each pixel is loaded once
// and multiplied by up to K weights in registers. Blocks at the borders skip the pixels outside the row.
#include "ops/cpu/simd/tables.h"
#include "ops/cpu/simd/vectors.h"

namespace ddp::DDP_ISA {
namespace {

constexpr int kColumns = 7;  // divides the widths of networks for images of 224 x 224
#ifdef __AVX512F__
constexpr int kWidestVector = 16;
#else
constexpr int kWidestVector = 8;
#endif

// Calls f(vector length, k) for the vectors of a row, and f for single columns at its end.
template <class F>
inline void each_vector(long width, F&& f) {
  long k = 0;
  for (; k + kWidestVector <= width; k += kWidestVector) f(std::integral_constant<int, kWidestVector>{}, k);
  for (; k + 8 <= width; k += 8) f(std::integral_constant<int, 8>{}, k);
  for (; k < width; ++k) f(std::integral_constant<int, 1>{}, k);
}

template <int L>
inline Vector<L> first_sum(const float* bias, long k) {
  return bias ? load<L>(bias + k) : Vector<L>{};
}

// One output, for any window.
template <class T, int L>
inline void output(const DepthwiseRow& a, long m, long k) {
  const T* x = static_cast<const T*>(a.x) + k;
  const float* w = a.w + k;
  Vector<L> sum = first_sum<L>(a.bias, k);
  for (long p = 0; p < a.rows; ++p, x += a.x_row, w += a.w_row)
    for (long q = 0; q < a.taps; ++q) {
      const long pixel = a.first + m * a.step + q * a.tap;
      if (pixel >= 0 && pixel < a.width) sum += load<L>(w + q * a.w_tap) * load<L>(x + pixel * a.channels);
    }
  store<L>(static_cast<T*>(a.y) + m * a.y_pixel + k, a.relu ? ReluOf<Vector<L>>{}(sum) : sum);
}

// K taps of one pixel each, outputs S taps apart. Bit t of `valid` says whether pixel t of the block is in the row.
// Only `columns` outputs are stored.
template <class T, int L, int K, int S, bool kBorder>
inline void block(const DepthwiseRow& a, long m, int columns, unsigned long valid, long k) {
  constexpr int kPixels = (kColumns - 1) * S + K;
  const long pixel = a.tap * a.channels;
  const T* x = static_cast<const T*>(a.x) + (a.first + m * a.step) * a.channels + k;
  const float* w = a.w + k;
  if (a.next) {
    const T* next = static_cast<const T*>(a.next) + (a.first + m * a.step) * a.channels + k;
    for (int r = 0; r < S; ++r, next += a.width * a.channels)
#pragma GCC unroll 16
      for (int j = 0; j < kColumns * S; ++j) __builtin_prefetch(next + j * a.channels);
  }
  const Vector<L> start = first_sum<L>(a.bias, k);
  Vector<L> sums[kColumns];
#pragma GCC unroll 16
  for (int j = 0; j < kColumns; ++j) sums[j] = start;
  for (long p = 0; p < a.rows; ++p, x += a.x_row, w += a.w_row) {
    Vector<L> weights[K];
#pragma GCC unroll 16
    for (int q = 0; q < K; ++q) weights[q] = load<L>(w + q * a.w_tap);
#pragma GCC unroll 32
    for (int t = 0; t < kPixels; ++t) {
      if (kBorder && !(valid >> t & 1)) continue;
      const Vector<L> v = load<L>(x + t * pixel);
#pragma GCC unroll 16
      for (int j = 0; j < kColumns; ++j)
        if (t - j * S >= 0 && t - j * S < K) sums[j] += weights[t - j * S] * v;
    }
  }
  T* y = static_cast<T*>(a.y) + m * a.y_pixel + k;
#pragma GCC unroll 16
  for (int j = 0; j < kColumns; ++j)
    if (!kBorder || j < columns) store<L>(y + j * a.y_pixel, a.relu ? ReluOf<Vector<L>>{}(sums[j]) : sums[j]);
}

// The last block begins earlier, and computes some outputs again, if the row is not a number of whole blocks.
template <class T, int K, int S>
void row_of_blocks(const DepthwiseRow& a) {
  constexpr int kPixels = (kColumns - 1) * S + K;
  constexpr unsigned long kAll = (1ul << kPixels) - 1;
  for (long m = 0; m < a.columns; m += kColumns) {
    if (m + kColumns > a.columns && a.columns >= kColumns) m = a.columns - kColumns;
    const int columns = a.columns < kColumns ? static_cast<int>(a.columns) : kColumns;
    unsigned long valid = 0;
    for (int t = 0; t < kPixels; ++t) {
      const long pixel = a.first + m * a.step + t * a.tap;
      valid |= static_cast<unsigned long>(pixel >= 0 && pixel < a.width) << t;
    }
    const bool border = valid != kAll || columns < kColumns;
    each_vector(a.channels, [&](auto length, long k) {
      constexpr int L = length;
      if constexpr (L == 1) {
        for (long j = m; j < m + columns; ++j) output<T, 1>(a, j, k);
      } else if (border) {
        block<T, L, K, S, true>(a, m, columns, valid, k);
      } else {
        block<T, L, K, S, false>(a, m, columns, valid, k);
      }
    });
  }
}

template <class T>
void depthwise_row(const DepthwiseRow& a) {
  if (a.step == a.tap) switch (a.taps) {
      case 1: return row_of_blocks<T, 1, 1>(a);
      case 2: return row_of_blocks<T, 2, 1>(a);
      case 3: return row_of_blocks<T, 3, 1>(a);
      case 4: return row_of_blocks<T, 4, 1>(a);
      case 5: return row_of_blocks<T, 5, 1>(a);
      case 7: return row_of_blocks<T, 7, 1>(a);
      default: break;
    }
  if (a.step == 2 * a.tap) switch (a.taps) {
      case 3: return row_of_blocks<T, 3, 2>(a);
      case 5: return row_of_blocks<T, 5, 2>(a);
      case 7: return row_of_blocks<T, 7, 2>(a);
      default: break;
    }
  for (long m = 0; m < a.columns; ++m)
    each_vector(a.channels, [&](auto length, long k) { output<T, length>(a, m, k); });
}

// P rows of K taps of one pixel each, S pixels from output to output. Pairs of outputs share the loads of x.
template <class T, int L, int K, int S, int P>
inline void weight_block(const DepthwiseWeightGradient& a, long p, long k) {
  const long row = a.width * a.channels;
  const T* x = static_cast<const T*>(a.x) + (a.top + p) * row + a.first * a.channels + k;
  const T* dy = static_cast<const T*>(a.dy) + k;
  float* const to = a.sums + p * K * a.channels + k;
  Vector<L> sums[P][K];
#pragma GCC unroll 8
  for (int r = 0; r < P; ++r)
#pragma GCC unroll 8
    for (int q = 0; q < K; ++q) sums[r][q] = load<L>(to + (r * K + q) * a.channels);
  long begin = a.first < 0 ? (S - 1 - a.first) / S : 0, end = (a.width - a.first - K + S) / S;
  if (begin > a.columns) begin = a.columns;
  if (end > a.columns) end = a.columns;
  if (end < begin) end = begin;
  for (long i = 0; i < a.rows; ++i, x += S * row, dy += a.columns * a.channels) {
    unsigned inside = 0;  // bit r: row r of the taps is in the image
    for (int r = 0; r < P; ++r) {
      const long at = a.top + i * S + p + r;
      inside |= static_cast<unsigned>(at >= 0 && at < a.height) << r;
    }
    const auto at_border = [&](long m) {
      const Vector<L> g = load<L>(dy + m * a.channels);
#pragma GCC unroll 8
      for (int q = 0; q < K; ++q) {
        const long pixel = a.first + m * S + q;
        if (pixel < 0 || pixel >= a.width) continue;
#pragma GCC unroll 8
        for (int r = 0; r < P; ++r)
          if (inside >> r & 1) sums[r][q] += g * load<L>(x + r * row + (m * S + q) * a.channels);
      }
    };
    long m = 0;
    for (; m < begin; ++m) at_border(m);
    for (; m + 2 <= end; m += 2) {
      const Vector<L> g0 = load<L>(dy + m * a.channels), g1 = load<L>(dy + (m + 1) * a.channels);
#pragma GCC unroll 8
      for (int r = 0; r < P; ++r) {
        if (!(inside >> r & 1)) continue;
#pragma GCC unroll 16
        for (int t = 0; t < K + S; ++t) {
          const Vector<L> v = load<L>(x + r * row + (m * S + t) * a.channels);
          if (t < K) sums[r][t] += g0 * v;
          if (t >= S) sums[r][t - S] += g1 * v;
        }
      }
    }
    for (; m < a.columns; ++m) at_border(m);
  }
#pragma GCC unroll 8
  for (int r = 0; r < P; ++r)
#pragma GCC unroll 8
    for (int q = 0; q < K; ++q) store<L>(to + (r * K + q) * a.channels, sums[r][q]);
}

// One tap at a time, for any window, with four sums to hide the latency of additions.
template <class T, int L>
inline void weight_tap(const DepthwiseWeightGradient& a, long p, long q, long k) {
  Vector<L> sums[4] = {};
  for (long i = 0; i < a.rows; ++i) {
    const long row = a.top + i * a.step + p * a.tap;
    if (row < 0 || row >= a.height) continue;
    for (long m = 0; m < a.columns; ++m) {
      const long pixel = a.first + m * a.step + q * a.tap;
      if (pixel < 0 || pixel >= a.width) continue;
      const Vector<L> x = load<L>(static_cast<const T*>(a.x) + (row * a.width + pixel) * a.channels + k);
      sums[m % 4] += load<L>(static_cast<const T*>(a.dy) + (i * a.columns + m) * a.channels + k) * x;
    }
  }
  float* const to = a.sums + (p * a.taps + q) * a.channels + k;
  store<L>(to, load<L>(to) + ((sums[0] + sums[1]) + (sums[2] + sums[3])));
}

template <class T, int L>
inline void weight_taps(const DepthwiseWeightGradient& a, long k) {
  for (long p = 0; p < a.taps; ++p)
    for (long q = 0; q < a.taps; ++q) weight_tap<T, L>(a, p, q, k);
}

// All K rows of taps together, where their sums fit in the registers.
template <class T, int K, int S>
void weights_of_blocks(const DepthwiseWeightGradient& a) {
  constexpr int kRows = K == 3 || (K == 5 && kWidestVector == 16) ? K : 1;
  each_vector(a.channels, [&](auto length, long k) {
    constexpr int L = length;
    if constexpr (L == 1)
      weight_taps<T, 1>(a, k);
    else
      for (long p = 0; p < K; p += kRows) weight_block<T, L, K, S, kRows>(a, p, k);
  });
}

template <class T>
void depthwise_weight_gradient(const DepthwiseWeightGradient& a) {
  if (a.tap == 1 && a.step == 1) switch (a.taps) {
      case 3: return weights_of_blocks<T, 3, 1>(a);
      case 5: return weights_of_blocks<T, 5, 1>(a);
      case 7: return weights_of_blocks<T, 7, 1>(a);
      default: break;
    }
  if (a.tap == 1 && a.step == 2) switch (a.taps) {
      case 3: return weights_of_blocks<T, 3, 2>(a);
      case 5: return weights_of_blocks<T, 5, 2>(a);
      case 7: return weights_of_blocks<T, 7, 2>(a);
      default: break;
    }
  each_vector(a.channels, [&](auto length, long k) { weight_taps<T, length>(a, k); });
}

template <class T>
void add_bias(void* y, long rows, long width, long stride, const float* bias, bool relu) {
  for (long r = 0; r < rows; ++r) {
    T* const row = static_cast<T*>(y) + r * stride;
    each_vector(width, [&](auto length, long k) {
      constexpr int L = length;
      const Vector<L> v = load<L>(row + k) + first_sum<L>(bias, k);
      store<L>(row + k, relu ? ReluOf<Vector<L>>{}(v) : v);
    });
  }
}

// Strips of rows stay in the L1 cache; the sums of a vector of columns stay in registers within a strip.
template <class T>
void column_gradient(const ColumnGradient& a) {
  const long strip = a.width >= 256 ? 8 : 2048 / a.width;
  for (long first = 0; first < a.rows; first += strip) {
    const long end = first + strip < a.rows ? first + strip : a.rows;
    each_vector(a.width, [&](auto length, long k) {
      constexpr int L = length;
      Vector<L> sums[2] = {};
      for (long r = first; r < end; ++r) {
        T* const dy = static_cast<T*>(a.dy) + r * a.width + k;
        Vector<L> g = load<L>(dy);
        if (a.y) {
          g = ReluGradientOf<Vector<L>>{}(load<L>(static_cast<const T*>(a.y) + r * a.width + k), g);
          store<L>(dy, g);
        }
        sums[r % 2] += g;
      }
      if (a.sums) store<L>(a.sums + k, load<L>(a.sums + k) + (sums[0] + sums[1]));
    });
  }
}

template <class T>
constexpr DenseKernels kDense = {depthwise_row<T>, depthwise_weight_gradient<T>, add_bias<T>, column_gradient<T>};

}  // namespace

const DenseKernels kDenseF32 = kDense<float>, kDenseBf16 = kDense<uint16_t>;

}  // namespace ddp::DDP_ISA
