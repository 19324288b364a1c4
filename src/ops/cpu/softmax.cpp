#include "ops/cpu/softmax.h"

#include "core/error.h"
#include "ops/functors.h"

#include <cmath>

namespace ddp {

void softmax_cross_entropy(const Tensor& logits, const Samples& samples, float scale, const Tensor* dlogits,
                           float* stats) {
  const int64_t n = logits.shape.n, classes = logits.shape.image.c;
  DDP_EXPECT(logits.format.kind != Format::Kind::channels && (!dlogits || dlogits->format == logits.format));
  const int64_t lanes = logits.format.kind == Format::Kind::lanes ? logits.format.block : 1;
  double loss = 0;
  int64_t correct = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t base = i / lanes * lanes * classes + i % lanes;
    const float* z = logits.f32() + base;
    const int64_t label = samples.labels[samples.id(i)];
    int64_t best = 0;
    for (int64_t k = 1; k < classes; ++k)
      if (z[k * lanes] > z[best * lanes]) best = k;
    const float max = z[best * lanes];
    const float shifted_label = z[label * lanes] - max;
    float sum = 0;
    for (int64_t k = 0; k < classes; ++k) sum += std::exp(z[k * lanes] - max);
    loss += std::log(sum) - shifted_label;
    correct += best == label;
    if (!dlogits) continue;
    const float reciprocal = 1.0f / sum;
    for (int64_t k = 0; k < classes; ++k) {
      const int64_t at = base + k * lanes;
      dlogits->f32()[at] = SoftmaxGradient{scale}(std::exp(logits.f32()[at] - max), reciprocal, k == label);
    }
  }
  if (dlogits)
    for (int64_t i = n; i % lanes != 0; ++i)
      for (int64_t k = 0; k < classes; ++k) dlogits->f32()[(i / lanes * classes + k) * lanes + i % lanes] = 0.0f;
  stats[0] = static_cast<float>(loss);
  stats[1] = static_cast<float>(correct);
}

}  // namespace ddp
