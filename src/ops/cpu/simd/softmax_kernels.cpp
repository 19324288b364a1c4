// A row of logits stays in the L2 cache for three passes: the largest logit, the sum of the exponentials, the gradient.
// dlogits of type f32 keep the exponentials from the second pass to the third.
#include "ops/activation_functors.h"
#include "ops/cpu/simd/row_sums.h"
#include "ops/cpu/simd/tables.h"

namespace ddp::DDP_ISA {
namespace {

// NaN if the first logit is NaN; a later NaN does not count, but makes both sums NaN.
template <class T>
float largest_of_row(const T* z, long classes) {
  float largest = load<1>(z);
  Vector<16> chains[4];
  for (Vector<16>& chain : chains) chain = Vector<16>{} + largest;
  const auto include = [](Vector<16>& chain, const Vector<16>& v) { chain = v > chain ? v : chain; };
  long k = 0;
  for (; k + 64 <= classes; k += 64)
    for (int chain = 0; chain < 4; ++chain) include(chains[chain], load<16>(z + k + 16 * chain));
  for (; k + 16 <= classes; k += 16) include(chains[0], load<16>(z + k));
  for (int chain = 1; chain < 4; ++chain) include(chains[0], chains[chain]);
  for (int i = 0; i < 16; ++i) largest = chains[0][i] > largest ? chains[0][i] : largest;
  for (; k < classes; ++k) largest = load<1>(z + k) > largest ? load<1>(z + k) : largest;
  return largest;
}

template <class T>
SoftmaxSums softmax_row(const SoftmaxRow& row) {
  const T* const z = static_cast<const T*>(row.logits);
  T* const d = static_cast<T*>(row.dlogits);
  constexpr bool kKeeps = sizeof(T) == sizeof(float);
  const float largest = largest_of_row(z, row.classes), label_logit = load<1>(z + row.label) - largest;
  SoftmaxSums sums{.exponentials = 0, .below_max = 0, .label_logit = label_logit, .correct = false};
  sums.correct = label_logit == 0 && (row.label == 0 || largest_of_row(z, row.label) < largest);
  if (row.gradient.smoothing_share > 0)
    sums.below_max = sum_of_row(row.classes, [&](auto length, long k) { return load<length>(z + k) - largest; });
  sums.exponentials = sum_of_row(row.classes, [&](auto length, long k) {
    const Vector<length> e = exp_of_negative(load<length>(z + k) - largest);
    if constexpr (kKeeps)
      if (d) store<length>(d + k, e);
    return e;
  });
  if (!d) return sums;
  const SoftmaxGradient gradient = row.gradient;
  const float reciprocal = 1 / sums.exponentials;
  each_column(row.classes, [&](auto length, long k) {
    Vector<length> e;
    if constexpr (kKeeps)
      e = load<length>(d + k);
    else
      e = exp_of_negative(load<length>(z + k) - largest);
    store<length>(d + k, (e * reciprocal - gradient.smoothing_share) * gradient.scale);
  });
  store<1>(d + row.label, gradient(exp_of_negative(label_logit), reciprocal, gradient.label_target));
  return sums;
}

}  // namespace

const SoftmaxKernels kSoftmaxF32 = {softmax_row<float>}, kSoftmaxBf16 = {softmax_row<uint16_t>};

}  // namespace ddp::DDP_ISA
