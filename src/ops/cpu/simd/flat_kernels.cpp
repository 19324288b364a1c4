// One pass over contiguous values: activations of any format, and flat buffers. This file is compiled without fused
// multiply-add, so all sets give the same bits: each rank computes the norm of the summed gradient for itself.
#include "ops/cpu/simd/tables.h"
#include "ops/cpu/simd/vectors.h"

namespace ddp::DDP_ISA {
namespace {

template <class T>
void relu_of(const void* x, void* y, long count) {
  each_column(count, [&](auto length, long k) {
    store<length>(static_cast<T*>(y) + k, ReluOf<Vector<length>>{}(load<length>(static_cast<const T*>(x) + k)));
  });
}

template <class T>
void relu_backward(const void* y, const void* dy, void* dx, long count) {
  each_column(count, [&](auto length, long k) {
    const Vector<length> out = load<length>(static_cast<const T*>(y) + k);
    const Vector<length> g = load<length>(static_cast<const T*>(dy) + k);
    store<length>(static_cast<T*>(dx) + k, ReluGradientOf<Vector<length>>{}(out, g));
  });
}

template <class T>
void add(const void* a, const void* b, void* y, long count) {
  each_column(count, [&](auto length, long k) {
    store<length>(static_cast<T*>(y) + k,
                  load<length>(static_cast<const T*>(a) + k) + load<length>(static_cast<const T*>(b) + k));
  });
}

constexpr long kPiece = 256;  // values between memory and the functions, which take f32

template <class T>
void load_piece(const T* from, long count, float* to) {
  each_column(count, [&](auto length, long k) { store<length>(to + k, load<length>(from + k)); });
  for (long k = count; k % 16 != 0; ++k) to[k] = 0;
}

template <class T>
void activation_of(const Activation& activation, const void* x, void* y, long count) {
  alignas(64) float values[kPiece];
  for (long first = 0; first < count; first += kPiece) {
    const long length = count - first < kPiece ? count - first : kPiece;
    load_piece(static_cast<const T*>(x) + first, length, values);
    kActivationFunctions.value(activation, values, (length + 15) / 16 * 16);
    T* const to = static_cast<T*>(y) + first;
    each_column(length, [&](auto lanes, long k) { store<lanes>(to + k, load<lanes>(values + k)); });
  }
}

template <class T>
void activation_backward(const Activation& activation, const void* x, const void* dy, void* dx, long count) {
  alignas(64) float slopes[kPiece];
  for (long first = 0; first < count; first += kPiece) {
    const long length = count - first < kPiece ? count - first : kPiece;
    load_piece(static_cast<const T*>(x) + first, length, slopes);
    kActivationFunctions.derivative(activation, slopes, (length + 15) / 16 * 16);
    const T* const from = static_cast<const T*>(dy) + first;
    T* const to = static_cast<T*>(dx) + first;
    each_column(length,
                [&](auto lanes, long k) { store<lanes>(to + k, load<lanes>(from + k) * load<lanes>(slopes + k)); });
  }
}

void add_floats(const float* from, float* to, long count) { add<float>(from, to, to, count); }

void to_bf16(const float* from, void* to, long count) {
  each_column(count,
              [&](auto length, long k) { store<length>(static_cast<uint16_t*>(to) + k, load<length>(from + k)); });
}

void from_bf16(const void* from, float* to, long count) {
  each_column(
      count, [&](auto length, long k) { store<length>(to + k, load<length>(static_cast<const uint16_t*>(from) + k)); });
}

// Sums in f32 over runs that are short enough for small rounding errors, and in double over the runs.
double sum_of_squares(const float* values, long count) {
  constexpr long kRun = 1024;
  double sum = 0;
  for (long first = 0; first < count; first += kRun) {
    const long end = count - first < kRun ? count : first + kRun;
    Vector<16> chains[4] = {};
    long i = first;
    for (; i + 64 <= end; i += 64)
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c) {
        const Vector<16> v = load<16>(values + i + 16 * c);
        chains[c] += v * v;
      }
    const Vector<16> total = (chains[0] + chains[1]) + (chains[2] + chains[3]);
    for (int l = 0; l < 16; ++l) sum += static_cast<double>(total[l]);
    for (; i < end; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  return sum;
}

bool any_nonfinite(const float* values, long count) {
  uint32_t any = 0;
  for (long i = 0; i < count; ++i) any |= IsNonfinite{}(__builtin_bit_cast(uint32_t, values[i])) ? 1u : 0u;
  return any != 0;
}

template <class T>
constexpr ElementwiseKernels kElementwise = {relu_of<T>, relu_backward<T>, add<T>, activation_of<T>,
                                             activation_backward<T>};

}  // namespace

const ElementwiseKernels kElementwiseF32 = kElementwise<float>, kElementwiseBf16 = kElementwise<uint16_t>;
const FlatKernels kFlat = {add_floats, to_bf16, from_bf16, sum_of_squares, any_nonfinite};

}  // namespace ddp::DDP_ISA
