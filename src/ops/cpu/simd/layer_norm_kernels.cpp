// The passes of layer norm. A row is read from memory once; the second and the third pass find it in the cache. The
// backward pass takes a few rows at a time, so that it loads and stores each column's sums once for all of them.
#include "ops/cpu/simd/row_sums.h"
#include "ops/cpu/simd/tables.h"
#include "ops/cpu/simd/vectors.h"

namespace ddp::DDP_ISA {
namespace {

#ifdef __AVX512F__
constexpr int kRowsAtOnce = 4;
#else
constexpr int kRowsAtOnce = 1;  // there are too few registers for more
#endif

template <class T>
void layer_norm_forward(const LayerNormForward& a) {
  const auto width = static_cast<float>(a.width);
  for (long r = 0; r < a.rows; ++r) {
    const T* const x = static_cast<const T*>(a.x) + r * a.width;
    T* const y = static_cast<T*>(a.y) + r * a.width;
    const float first = load<1>(x);
    const auto shifted = [&](auto length, long k) { return load<length>(x + k) - first; };
    const float mean = sum_of_row(a.width, shifted) / width;
    const float squares = sum_of_row(a.width, [&](auto length, long k) {
      const Vector<length> d = shifted(length, k) - mean;
      return d * d;
    });
    const float inverse = 1 / __builtin_sqrtf(squares / width + a.epsilon);
    each_column(a.width, [&](auto length, long k) {
      constexpr int L = length;
      const Vector<L> xhat = (shifted(length, k) - mean) * inverse;
      store<L>(y + k, xhat * load<L>(a.scale + k) + load<L>(a.shift + k));
    });
    a.saved[2 * r] = mean;
    a.saved[2 * r + 1] = inverse;
  }
}

template <class T, int R>
void backward_of_rows(const LayerNormBackward& a, long row) {
  const T* const x = static_cast<const T*>(a.x) + row * a.width;
  const T* const dy = static_cast<const T*>(a.dy) + row * a.width;
  float first[R], mean[R], inverse[R];
  for (int r = 0; r < R; ++r) {
    first[r] = load<1>(x + r * a.width);
    mean[r] = a.saved[2 * (row + r)];
    inverse[r] = a.saved[2 * (row + r) + 1];
  }
  const auto xhat = [&](auto length, int r, long k) {
    return (load<length>(x + r * a.width + k) - first[r] - mean[r]) * inverse[r];
  };
  Vector<16> sums[R] = {}, products[R] = {};  // of dy * scale, and of that times xhat
  float rest[R] = {}, rest_of_products[R] = {};
  const auto add = [&](auto length, long k, auto& of_g, auto& of_products) {
    constexpr int L = length;
    const Vector<L> scale = load<L>(a.scale + k);
    Vector<L> dscale = {}, dshift = {};
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const Vector<L> d = load<L>(dy + r * a.width + k), normalized = xhat(length, r, k), g = d * scale;
      dshift += d;
      dscale += d * normalized;
      of_g[r] += g;
      of_products[r] += g * normalized;
    }
    if (!a.dscale) return;
    store<L>(a.dscale + k, load<L>(a.dscale + k) + dscale);
    store<L>(a.dshift + k, load<L>(a.dshift + k) + dshift);
  };
  long k = 0;
  for (; k + 16 <= a.width; k += 16) add(std::integral_constant<int, 16>{}, k, sums, products);
  for (; k < a.width; ++k) add(std::integral_constant<int, 1>{}, k, rest, rest_of_products);
  if (!a.dx) return;
  const auto width = static_cast<float>(a.width);
  for (int r = 0; r < R; ++r) {
    const float mean_g = (sum_of_lanes(sums[r]) + rest[r]) / width,
                mean_product = (sum_of_lanes(products[r]) + rest_of_products[r]) / width;
    T* const dx = static_cast<T*>(a.dx) + (row + r) * a.width;
    each_column(a.width, [&](auto length, long c) {
      constexpr int L = length;
      const Vector<L> g = load<L>(dy + r * a.width + c) * load<L>(a.scale + c);
      store<L>(dx + c, (g - mean_g - xhat(length, r, c) * mean_product) * inverse[r]);
    });
  }
}

template <class T>
void layer_norm_backward(const LayerNormBackward& a) {
  long row = 0;
  for (; row + kRowsAtOnce <= a.rows; row += kRowsAtOnce) backward_of_rows<T, kRowsAtOnce>(a, row);
  for (; row < a.rows; ++row) backward_of_rows<T, 1>(a, row);
}

template <class T>
void group_norm_gradient(const GroupNormGradient& a) {
  for (long r = 0; r < a.rows; ++r) {
    const T* const x = static_cast<const T*>(a.x) + r * a.width;
    const T* const dy = static_cast<const T*>(a.dy) + r * a.width;
    T* const dx = static_cast<T*>(a.dx) + r * a.width;
    each_column(a.width, [&](auto length, long k) {
      constexpr int L = length;
      store<L>(dx + k, load<L>(a.of_dy + k) * load<L>(dy + k) +
                           load<L>(a.of_x + k) * (load<L>(x + k) - load<L>(a.mean + k)) + load<L>(a.constant + k));
    });
  }
}

template <class T>
constexpr LayerNormKernels kLayerNorm = {layer_norm_forward<T>, layer_norm_backward<T>, group_norm_gradient<T>};

}  // namespace

const LayerNormKernels kLayerNormF32 = kLayerNorm<float>, kLayerNormBf16 = kLayerNorm<uint16_t>;

}  // namespace ddp::DDP_ISA
