#include "core/error.h"
#include "ops/cpu/activation.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/layout.h"
#include "ops/functors.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace ddp {
namespace {

struct Stats {
  double loss = 0;
  int64_t correct = 0;
  int64_t best = 0;  // of one sample
};

// The classes of one sample are `stride` elements apart. A logit that is not below the label's is before it, NaN too.
template <class T>
int32_t rank_of(int64_t label, const T* z, int64_t classes, int64_t stride) {
  const float label_logit = get(z[label * stride]);
  int32_t rank = 0;
  for (int64_t k = 0; k < classes; ++k) {
    const float value = get(z[k * stride]);
    const bool after = value < label_logit || (value == label_logit && k > label);
    rank += k != label && !after ? 1 : 0;
  }
  return rank;
}

// Loss and gradient of one sample. Its classes are `stride` elements apart.
template <class T>
Stats cross_entropy(const T* z, int64_t classes, int64_t stride, const SampleLabels& of, float scale, float smoothing,
                    T* dlogits) {
  const int64_t label = of.own;
  int64_t best = 0;
  for (int64_t k = 1; k < classes; ++k)
    if (get(z[k * stride]) > get(z[best * stride])) best = k;
  const float max = get(z[best * stride]), label_logit = get(z[label * stride]) - max;
  float sum = 0, logits = 0;
  for (int64_t k = 0; k < classes; ++k) {
    const float shifted = get(z[k * stride]) - max;
    sum += std::exp(shifted);
    logits += shifted;
  }
  const float share = smoothing / static_cast<float>(classes);
  double target_logit = label_logit;
  if (of.mixed()) {
    const double lambda = of.lambda;
    target_logit = lambda * label_logit + (1 - lambda) * (get(z[of.other * stride]) - max);
  }
  // The targets sum to 1, so the factor of log(sum) is 1.
  double loss = std::log(sum) - static_cast<double>(1 - smoothing) * target_logit;
  if (smoothing > 0) loss -= static_cast<double>(share) * logits;
  if (dlogits) {
    const SoftmaxGradient gradient{scale, share, 1 - smoothing + share};
    const float reciprocal = 1.0f / sum, own = gradient.own_target(of), other = gradient.other_target(of);
    for (int64_t k = 0; k < classes; ++k) {
      const float target = k == label ? own : k == of.other ? other : share;
      set(dlogits[k * stride], gradient(std::exp(get(z[k * stride]) - max), reciprocal, target));
    }
  }
  return {loss, best == label, best};
}

// Loss and gradient of one position of tokens. Images keep the plain loop above, whose results have other bits.
template <class T>
Stats token_cross_entropy(const SoftmaxKernels& kernels, const T* z, int64_t classes, int64_t label, float scale,
                          float smoothing, T* dlogits) {
  const float share = smoothing / static_cast<float>(classes);
  const SoftmaxGradient gradient{scale, share, 1 - smoothing + share};
  const SoftmaxSums sums = kernels.row({z, dlogits, classes, label, gradient});
  double loss = std::log(sums.exponentials) - static_cast<double>(1 - smoothing) * sums.label_logit;
  if (smoothing > 0) loss -= static_cast<double>(share) * sums.below_max;
  return {loss, sums.correct, 0};
}

// With null dlogits, computes only `stats`. Samples are split into at most kItems items, for any number of threads. The
// stats of the items are added in double, in order.
void cross_entropy_of_batch(const Workers& workers, const Tensor& logits, const DeviceBatch& batch, float scale,
                            float smoothing, const Tensor* dlogits, float* stats, RankedClass* ranked, Gradient mode) {
  constexpr int64_t kItems = 64;
  const int64_t positions = logits.shape.image.h * logits.shape.image.w, n = logits.shape.n * positions;
  const int64_t classes = logits.shape.image.c;
  const BatchLabels labels = labels_of(batch);
  const auto share = static_cast<float>(1.0 / static_cast<double>(positions));  // of a position in its sample
  DDP_EXPECT(positions == std::max<int64_t>(1, batch.sequence_length));
  DDP_EXPECT(batch.sequence_length == 0 || (is_dense(logits) && !ranked));
  DDP_EXPECT(logits.format.kind != Format::Kind::blocked_channels);
  DDP_EXPECT(!dlogits || (dlogits->format == logits.format && dlogits->dtype == logits.dtype));
  const int64_t lanes = logits.format.kind == Format::Kind::batch_interleaved ? logits.format.block : 1;
  const int64_t blocks = ceil_div(n, lanes), blocks_per_item = ceil_div(blocks, kItems);
  std::array<Stats, kItems> partial;
  const int64_t items = ceil_div(blocks, blocks_per_item);
  const SoftmaxKernels& kernels = workers.kernels.activations(logits.dtype).softmax;
  with_values(logits, [&](auto* z) {
    using T = std::remove_pointer_t<decltype(z)>;
    T* const d = dlogits ? static_cast<T*>(dlogits->data) : nullptr;
    workers.each(items, [&](int64_t item) {
      Stats sum;
      const int64_t first = item * blocks_per_item * lanes, end = first + blocks_per_item * lanes;
      for (int64_t i = first; i < std::min(n, end); ++i) {
        const int64_t at = i / lanes * lanes * classes + i % lanes;
        const SampleLabels of = labels.of(i, n);
        if (of.own == kExcludedLabel) {
          for (int64_t k = 0; d && k < classes; ++k) d[at + k * lanes] = T{};
          if (ranked) ranked[i] = {.best = -1, .label_rank = -1};
          continue;
        }
        if (batch.sequence_length > 0) {
          const Stats one =
              token_cross_entropy(kernels, z + at, classes, of.own, scale * share, smoothing, d ? d + at : nullptr);
          sum.loss += one.loss;
          sum.correct += one.correct;
          continue;
        }
        const float weight = batch.class_weights ? batch.class_weights[of.own] : 1;
        const Stats one =
            cross_entropy(z + at, classes, lanes, of, scale * share * weight, smoothing, d ? d + at : nullptr);
        sum.loss += weight * one.loss;
        sum.correct += one.correct;
        if (ranked)
          ranked[i] = {.best = static_cast<int32_t>(one.best), .label_rank = rank_of(of.own, z + at, classes, lanes)};
      }
      partial[static_cast<size_t>(item)] = sum;
    });
    if (d)
      for (int64_t i = n; i % lanes != 0; ++i)
        for (int64_t k = 0; k < classes; ++k) d[(i / lanes * classes + k) * lanes + i % lanes] = T{};
  });
  Stats total;
  for (int64_t item = 0; item < items; ++item) {
    total.loss += partial[static_cast<size_t>(item)].loss;
    total.correct += partial[static_cast<size_t>(item)].correct;
  }
  const bool add = mode == Gradient::add;
  const auto count = static_cast<double>(positions);
  stats[0] = static_cast<float>(total.loss / count) + (add ? stats[0] : 0.0f);
  stats[1] = static_cast<float>(static_cast<double>(total.correct) / count) + (add ? stats[1] : 0.0f);
}

}  // namespace

void CpuOps::softmax_cross_entropy(const Tensor& logits, const DeviceBatch& batch, float* stats, RankedClass* ranked) {
  cross_entropy_of_batch(workers_, logits, batch, 0, 0, nullptr, stats, ranked, Gradient::overwrite);
}

void CpuOps::softmax_cross_entropy_backward(const Tensor& logits, const DeviceBatch& batch, float scale,
                                            float smoothing, const Tensor& dlogits, float* stats, Gradient mode) {
  cross_entropy_of_batch(workers_, logits, batch, scale, smoothing, &dlogits, stats, nullptr, mode);
}

}  // namespace ddp
