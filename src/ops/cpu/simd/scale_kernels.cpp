// Values times a factor of each column, and the gradients. Rows are processed in strips that fit in the L1 cache, and a
// strip in groups of 16 columns, whose factors and sums stay in registers.
#include "ops/cpu/simd/tables.h"
#include "ops/cpu/simd/vectors.h"

namespace ddp::DDP_ISA {
namespace {

constexpr long kStrip = 4;  // rows of a strip, at least

template <class T>
void scale_forward(const ScaleForward& a) {
  const T* x = static_cast<const T*>(a.x);
  T* y = static_cast<T*>(a.y);
  each_strip(a.rows, a.width, kStrip, [&](auto length, long first, long rows, long k) {
    constexpr int L = length;
    const ScaleAndShiftOf<Vector<L>> scaled{load<L>(a.factor + k), load<L>(a.shift + k)};
    for (long r = first; r < first + rows; ++r) store<L>(y + r * a.stride + k, scaled(load<L>(x + r * a.stride + k)));
  });
}

template <class T, bool kInput, bool kSums>
void scale_backward_as(const ScaleBackward& a) {
  const T* x = static_cast<const T*>(a.x);
  const T* dy = static_cast<const T*>(a.dy);
  T* dx = static_cast<T*>(a.dx);
  each_strip(a.rows, a.width, kStrip, [&](auto length, long first, long rows, long k) {
    constexpr int L = length;
    const Vector<L> factor = load<L>(a.factor + k);
    Vector<L> sum{};
    for (long r = first; r < first + rows; ++r) {
      const long at = r * a.stride + k;
      const Vector<L> g = load<L>(dy + at);
      if constexpr (kSums) {
        if constexpr (kInput)
          sum += g * load<L>(x + at);
        else
          sum += g;
      }
      if (dx) store<L>(dx + at, g * factor);
    }
    if constexpr (kSums) store<L>(a.sums + k, load<L>(a.sums + k) + sum);
  });
}

template <class T>
void scale_backward(const ScaleBackward& a) {
  if (!a.sums) return scale_backward_as<T, false, false>(a);
  return a.x ? scale_backward_as<T, true, true>(a) : scale_backward_as<T, false, true>(a);
}

template <class T>
constexpr ScaleKernels kScale = {scale_forward<T>, scale_backward<T>};

}  // namespace

const ScaleKernels kScaleF32 = kScale<float>, kScaleBf16 = kScale<uint16_t>;

}  // namespace ddp::DDP_ISA
