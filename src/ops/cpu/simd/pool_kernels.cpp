// Pooling of one position at a time. Vectors run over channels, lanes or both.
#include "ops/cpu/simd/tables.h"
#include "ops/cpu/simd/vectors.h"

namespace ddp::DDP_ISA {
namespace {

template <class T>
void pool_average(const PoolWindow& a) {
  const T* x = static_cast<const T*>(a.x);
  each_column(a.width, [&](auto length, long k) {
    constexpr int L = length;
    Vector<L> sum = {};
    for (long p = 0; p < a.rows; ++p)
      for (long q = 0; q < a.columns; ++q) sum += load<L>(x + p * a.row + q * a.column + k);
    store<L>(static_cast<T*>(a.y) + k, sum * a.scale);
  });
}

template <class T>
void pool_weighted(const PoolWeighted& a) {
  const T* x = static_cast<const T*>(a.x);
  each_column(a.width, [&](auto length, long k) {
    constexpr int L = length;
    Vector<L> sum = {};
    for (long p = 0; p < a.rows; ++p)
      for (long q = 0; q < a.columns; ++q)
        sum += load<L>(x + p * a.row + q * a.column + k) * (a.row_weights[p] * a.column_weights[q]);
    store<L>(static_cast<T*>(a.y) + k, sum);
  });
}

template <class T>
void pool_maximum(const PoolWindow& a) {
  const T* x = static_cast<const T*>(a.x);
  each_column(a.width, [&](auto length, long k) {
    constexpr int L = length;
    Vector<L> largest = load<L>(x + k);
    for (long p = 0; p < a.rows; ++p)
      for (long q = 0; q < a.columns; ++q) {
        const Vector<L> v = load<L>(x + p * a.row + q * a.column + k);
        largest = (v > largest) | (v != v) ? v : largest;
      }
    store<L>(static_cast<T*>(a.y) + k, largest);
  });
}

// If a window contains NaN, its largest value is NaN, which equals nothing, so each comparison also tests for NaN.
template <class T>
void pool_maximum_gradient(const PoolMaximumGradient& a) {
  const T* x = static_cast<const T*>(a.x);
  const T* y = static_cast<const T*>(a.y);
  const T* dy = static_cast<const T*>(a.dy);
  each_column(a.width, [&](auto length, long k) {
    constexpr int L = length;
    const auto x_at = [&](long h, long w) { return load<L>(x + (h * a.row_of_x + w) * a.width + k); };
    const Vector<L> here = x_at(a.h, a.w);
    Vector<L> sum = {};
    for (long i = a.i0; i < a.i1; ++i)
      for (long j = a.j0; j < a.j1; ++j) {
        const long at = (i * a.row_of_y + j) * a.width + k;
        const Vector<L> largest = load<L>(y + at);
        Vector<L> g = (here == largest) | (here != here) ? load<L>(dy + at) : Vector<L>{};
        const long h0 = i * a.stride - a.top, w0 = j * a.stride - a.left;
        const auto unless_at = [&](long h, long w) {
          const Vector<L> earlier = x_at(h, w);
          g = (earlier == largest) | (earlier != earlier) ? Vector<L>{} : g;
        };
        for (long h = h0 < 0 ? 0 : h0; h < a.h; ++h)
          for (long w = w0 < 0 ? 0 : w0; w < (w0 + a.kernel < a.row_of_x ? w0 + a.kernel : a.row_of_x); ++w)
            unless_at(h, w);
        for (long w = w0 < 0 ? 0 : w0; w < a.w; ++w) unless_at(a.h, w);
        sum += g;
      }
    store<L>(static_cast<T*>(a.dx) + k, sum);
  });
}

template <class T>
constexpr PoolKernels kPool = {pool_average<T>, pool_weighted<T>, pool_maximum<T>, pool_maximum_gradient<T>};

}  // namespace

const PoolKernels kPoolF32 = kPool<float>, kPoolBf16 = kPool<uint16_t>;

}  // namespace ddp::DDP_ISA
