// The activation functions and their derivatives, over values that lie in the L1 cache.
#include "ops/activation_functors.h"
#include "ops/cpu/simd/tables.h"
#include "ops/cpu/simd/vectors.h"

namespace ddp::DDP_ISA {
namespace {

// The width of the set's registers, so that no comparison is split.
#if defined(__AVX512F__)
constexpr int kFloats = 16;
#elif defined(__AVX2__)
constexpr int kFloats = 8;
#else
constexpr int kFloats = 4;
#endif

void value(const Activation& activation, float* x, long count) {
  with_kind(activation.kind, [&]<Activation::Kind kind>() {
    for (long k = 0; k < count; k += kFloats)
      store<kFloats>(x + k, activated<kind>(load<kFloats>(x + k), activation.slope));
  });
}

void derivative(const Activation& activation, float* x, long count) {
  with_kind(activation.kind, [&]<Activation::Kind kind>() {
    for (long k = 0; k < count; k += kFloats)
      store<kFloats>(x + k, derivative_at<kind>(load<kFloats>(x + k), activation.slope));
  });
}

}  // namespace

const ActivationFunctions kActivationFunctions = {value, derivative};

}  // namespace ddp::DDP_ISA
