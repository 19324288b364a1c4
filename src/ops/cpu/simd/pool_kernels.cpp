// Pooling of one position, or the gradient of one plane, at a time. Vectors run over channels, lanes or both.
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

// Each window adds its gradient to the sums of the rows that it covers; a row that no later window covers is stored. If
// a window contains NaN, its largest value is NaN, which equals nothing, so each comparison also tests for NaN.
template <class T>
void pool_maximum_gradient(const PoolMaximumGradient& a) {
  const T* const x = static_cast<const T*>(a.x);
  const T* const y = static_cast<const T*>(a.y);
  const T* const dy = static_cast<const T*>(a.dy);
  T* const dx = static_cast<T*>(a.dx);
  each_column(a.width, [&](auto length, long k) {
    constexpr int L = length;
    const auto sums = [&](long h) { return a.sums + h % a.kernel * a.w * L; };
    long stored = 0;
    const auto store_until = [&](long end) {
      for (; stored < end; ++stored)
        for (long w = 0; w < a.w; ++w) {
          store<L>(dx + (stored * a.w + w) * a.width + k, load<L>(sums(stored) + w * L));
          store<L>(sums(stored) + w * L, Vector<L>{});
        }
    };
    for (long i = 0; i < a.out_h; ++i) {
      const long top = i * a.stride - a.top, h0 = top < 0 ? 0 : top, h1 = top + a.kernel < a.h ? top + a.kernel : a.h;
      store_until(h0);
      for (long j = 0; j < a.out_w; ++j) {
        const long left = j * a.stride - a.left, w0 = left < 0 ? 0 : left,
                   w1 = left + a.kernel < a.w ? left + a.kernel : a.w, at = (i * a.out_w + j) * a.width + k;
        const Vector<L> largest = load<L>(y + at);
        Vector<L> rest = load<L>(dy + at);  // 0 where the window has given it away
        for (long h = h0; h < h1; ++h)
          for (long w = w0; w < w1; ++w) {
            const Vector<L> v = load<L>(x + (h * a.w + w) * a.width + k);
            float* const sum = sums(h) + w * L;
            const auto here = (v == largest) | (v != v);
            store<L>(sum, load<L>(sum) + (here ? rest : Vector<L>{}));
            rest = here ? Vector<L>{} : rest;
          }
      }
    }
    store_until(a.h);
  });
}

template <class T>
constexpr PoolKernels kPool = {pool_average<T>, pool_weighted<T>, pool_maximum<T>, pool_maximum_gradient<T>};

}  // namespace

const PoolKernels kPoolF32 = kPool<float>, kPoolBf16 = kPool<uint16_t>;

}  // namespace ddp::DDP_ISA
