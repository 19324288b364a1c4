#include "core/error.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/pack.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/functors.h"

#include <cmath>

namespace ddp {
namespace {

constexpr int kBlock = 512;
constexpr int64_t kMaxPartials = kThreads;  // one per thread of the kernel that adds them
constexpr int64_t kClassesOfWarp = 1024;    // of a token; with more, a block has a row
constexpr int64_t kSingleBlockRounds = 4;   // with more rounds, several blocks and a second kernel are faster

using Stats = Sums<2>;  // loss, correct

__device__ void store_sum(const Stats& mine, Stats& to, bool add) {
  const Stats sum = sum_over_block(mine);
  if (threadIdx.x != 0) return;
  for (int m = 0; m < 2; ++m) to.at[m] = (add ? to.at[m] : 0.0f) + sum.at[m];
}

// A group of `lanes` adjacent threads processes one sample at a time; each thread has every lanes-th class. Only one
// thread reads and writes a class, so dlogits may be logits. `stats` has one entry per block.
template <class T>
__global__ void softmax_kernel(const T* logits, BatchLabels labels, int64_t samples, int classes, int lanes,
                               SoftmaxGradient gradient, float share_of_row, T* dlogits, Stats* stats,
                               RankedClass* ranked, bool add) {
  await_previous_kernel();
  const int lane = grid_thread() % lanes, samples_per_warp = kWarp / lanes;
  const int64_t warp = grid_thread() / kWarp, stride = grid_threads() / lanes;
  Stats mine{};
  // All lanes of a warp make the same number of rounds, because they exchange values.
  for (int64_t first = warp * samples_per_warp; first < samples; first += stride) {
    const int64_t sample = first + static_cast<int>(threadIdx.x) % kWarp / lanes;
    const int mine_end = sample < samples ? classes : 0;
    const SampleLabels of = sample < samples ? labels.of(sample, samples) : SampleLabels{0};
    const int label = of.own;
    const bool has_weight = sample < samples && label != kExcludedLabel;
    const float weight = labels.class_weights && has_weight ? labels.class_weights[label] : 1.0f;
    const T* z = logits + sample * classes;

    float max = -INFINITY, label_logit = 0, other_logit = 0;
    int best = classes;
    for (int k = lane; k < mine_end; k += lanes) {
      const float value = to_float(z[k]);
      if (k == label) label_logit = value;
      if (k == of.other) other_logit = value;
      if (value > max) {
        max = value;
        best = k;
      }
    }
    for (int offset = lanes / 2; offset > 0; offset /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, max, offset);
      const int other_best = __shfl_xor_sync(0xffffffffu, best, offset);
      if (other > max || (other == max && other_best < best)) {
        max = other;
        best = other_best;
      }
    }

    float sum = 0, below_max = 0;
    for (int k = lane; k < mine_end; k += lanes) {
      const float difference = to_float(z[k]) - max;
      sum += std::exp(difference);
      below_max += difference;
    }
    sum = sum_over_lanes(sum, lanes);
    const float share = gradient.smoothing_share;
    float target_logit = (gradient.label_target - share) * (sum_over_lanes(label_logit, lanes) - max);
    if (labels.mix) {  // for all threads or for none
      const float other_part = gradient.other_target(of) - share, other = sum_over_lanes(other_logit, lanes) - max;
      if (of.mixed()) target_logit = of.lambda * target_logit + other_part * other;
    }
    if (share != 0) target_logit += share * sum_over_lanes(below_max, lanes);
    if (lane == 0 && has_weight) {
      mine.at[0] += share_of_row * weight * (std::log(sum) - target_logit);
      mine.at[1] += best == label ? 1.0f : 0.0f;
    }
    if (ranked) {  // for all threads or for none
      const float own_logit = sum_over_lanes(label_logit, lanes);
      int before = 0;  // what is not below the label's logit is before it, NaN too
      for (int k = lane; k < mine_end; k += lanes) {
        const float value = to_float(z[k]);
        const bool after = value < own_logit || (value == own_logit && k > label);
        before += k != label && !after ? 1 : 0;
      }
      const auto rank = static_cast<int>(sum_over_lanes(static_cast<float>(before), lanes));  // exact up to 2^24
      if (lane == 0 && sample < samples) ranked[sample] = has_weight ? RankedClass{best, rank} : RankedClass{-1, -1};
    }
    if (!dlogits) continue;
    const float reciprocal = 1.0f / sum, own_target = gradient.own_target(of), other_target = gradient.other_target(of);
    for (int k = lane; k < mine_end; k += lanes) {
      const float exp_z = std::exp(to_float(z[k]) - max);
      const float target = k == label ? own_target : k == of.other ? other_target : share;
      const float value = has_weight ? weight * gradient(exp_z, reciprocal, target) : 0.0f;
      from_float(value, dlogits[sample * classes + k]);
    }
  }
  mine.at[1] *= share_of_row;  // after the sum of the thread, which is exact
  store_sum(mine, stats[blockIdx.x], add);
}

// Calls body<N>(k) for the classes of a row from k on: single ones up to an aligned address, packs, and single ones.
template <int N, class T, class Body>
__device__ void each_class(const T* z, int classes, const Body& body) {
  const int before = N > 1 ? static_cast<int>(reinterpret_cast<uintptr_t>(z) / sizeof(T) % N) : 0;
  const int first = min(classes, before > 0 ? N - before : 0), end = first + (classes - first) / N * N;
  for (int k = static_cast<int>(threadIdx.x); k < first; k += kBlock) body.template operator()<1>(k);
  for (int k = first + static_cast<int>(threadIdx.x) * N; k < end; k += kBlock * N) body.template operator()<N>(k);
  for (int k = end + static_cast<int>(threadIdx.x); k < classes; k += kBlock) body.template operator()<1>(k);
}

// Of the tokens: a block of kBlock threads processes one row at a time. Only one thread reads and writes a class, but
// for the label's logit, which all threads read before the first barrier; so dlogits may be logits.
template <class T, int N>
__global__ void __launch_bounds__(kBlock)
    token_softmax_kernel(const T* logits, BatchLabels labels, int64_t rows, int classes, SoftmaxGradient gradient,
                         float share_of_row, T* dlogits, Stats* stats, bool add) {
  await_previous_kernel();
  __shared__ float warp_max[kBlock / kWarp];
  __shared__ Sums<3> of_row;
  const float share = gradient.smoothing_share;
  Stats mine{};
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int label = labels.of(row, rows).own;
    const T* const z = logits + row * classes;
    T* const d = dlogits ? dlogits + row * classes : nullptr;
    if (label == kExcludedLabel) {
      if (d) each_class<N>(z, classes, [&]<int M>(int k) { store<M>(d + k, Pack<float, M>{}); });
      continue;
    }

    const float label_logit = to_float(z[label]);
    float max = -INFINITY;
    each_class<N>(z, classes, [&]<int M>(int k) {
      const auto values = load<M>(z + k);
      for (int i = 0; i < M; ++i)
        if (values.at[i] > max) max = values.at[i];
    });
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, max, offset);
      if (other > max) max = other;
    }
    if (threadIdx.x % kWarp == 0) warp_max[threadIdx.x / kWarp] = max;
    __syncthreads();
    for (const float other : warp_max)
      if (other > max) max = other;

    Sums<3> sums{};  // of exp(z - max), of z - max, of the largest logits before the label's
    each_class<N>(z, classes, [&]<int M>(int k) {
      const auto values = load<M>(z + k);
      for (int i = 0; i < M; ++i) {
        const float difference = values.at[i] - max;
        sums.at[0] += std::exp(difference);
        sums.at[1] += difference;
        sums.at[2] += difference == 0 && k + i < label ? 1.0f : 0.0f;
      }
    });
    const Sums<3> total = sum_over_block(sums);
    if (threadIdx.x == 0) {
      of_row = total;
      float target_logit = (gradient.label_target - share) * (label_logit - max);
      if (share != 0) target_logit += share * total.at[1];
      mine.at[0] += share_of_row * (std::log(total.at[0]) - target_logit);
      mine.at[1] += label_logit == max && total.at[2] == 0 ? 1.0f : 0.0f;
    }
    __syncthreads();
    if (!d) continue;
    const float reciprocal = 1.0f / of_row.at[0];
    each_class<N>(z, classes, [&]<int M>(int k) {
      auto values = load<M>(z + k);
      for (int i = 0; i < M; ++i)
        values.at[i] =
            gradient(std::exp(values.at[i] - max), reciprocal, k + i == label ? gradient.label_target : share);
      store<M>(d + k, values);
    });
  }
  mine.at[1] *= share_of_row;  // after the sum of the thread, which is exact
  store_sum(mine, stats[blockIdx.x], add);
}

__global__ void add_stats_kernel(const Stats* partials, int count, Stats* stats, bool add) {
  await_previous_kernel();
  const int i = threadIdx.x;
  store_sum(i < count ? partials[i] : Stats{}, *stats, add);
}

// The number of lanes that gives each lane at most 8 classes, but at most a warp.
int lanes_for(int64_t classes) {
  int lanes = 1;
  while (lanes < kWarp && classes > 8 * lanes) lanes *= 2;
  return lanes;
}

// With null dlogits, computes only `stats`.
void cross_entropy_of_batch(CudaContext& context, const Tensor& logits, const DeviceBatch& batch, float scale,
                            float smoothing, const Tensor* dlogits, float* stats, RankedClass* ranked, Gradient mode) {
  const int64_t positions = logits.shape.image.h * logits.shape.image.w, n = logits.shape.n * positions;
  const int64_t classes = logits.shape.image.c;
  DDP_EXPECT(logits.format == Format{} && batch.size == logits.shape.n);
  DDP_EXPECT(positions == std::max<int64_t>(1, batch.sequence_length) && (batch.sequence_length == 0 || !ranked));
  DDP_EXPECT(!dlogits || (dlogits->format == Format{} && dlogits->dtype == logits.dtype));
  DDP_EXPECT(!dlogits || dlogits->shape == logits.shape);

  const bool block_per_row = batch.sequence_length > 0 && classes > kClassesOfWarp;
  const int lanes = lanes_for(classes);
  const int64_t threads = (n * lanes + kWarp - 1) / kWarp * kWarp;
  const bool single_block = block_per_row ? n == 1 : threads <= kSingleBlockRounds * kBlock;
  const int64_t blocks = single_block ? 1 : std::min(block_per_row ? n : blocks_for(threads, kThreads), kMaxPartials);
  const int block = single_block ? static_cast<int>(std::min<int64_t>(threads, kBlock)) : kThreads;
  const float share = smoothing / static_cast<float>(classes);
  const auto share_of_row = static_cast<float>(1.0 / static_cast<double>(positions));
  const SoftmaxGradient gradient{scale * share_of_row, share, 1 - smoothing + share};
  const BatchLabels labels = labels_of(batch);
  const bool add = mode == Gradient::add;
  auto* result = reinterpret_cast<Stats*>(stats);
  auto* partials = single_block ? result : static_cast<Stats*>(context.workspace.data());
  if (block_per_row)
    with_packs(logits.dtype, width_of(logits.dtype, aligned(logits.data, dlogits ? dlogits->data : nullptr)),
               [&]<class T, int N>() {
                 launch(context.stream, blocks, kBlock, token_softmax_kernel<T, N>, static_cast<const T*>(logits.data),
                        labels, n, classes, gradient, share_of_row, dlogits ? data<T>(*dlogits) : nullptr, partials,
                        single_block && add);
               });
  else
    with_packs(logits.dtype, 1, [&]<class T, int>() {
      launch(context.stream, blocks, block, softmax_kernel<T>, static_cast<const T*>(logits.data), labels, n, classes,
             lanes, gradient, share_of_row, dlogits ? data<T>(*dlogits) : nullptr, partials, ranked,
             single_block && add);
    });
  if (!single_block) launch(context.stream, 1, kThreads, add_stats_kernel, partials, blocks, result, add);
}

}  // namespace

void reserve_softmax(CudaContext& context) { context.workspace.reserve(kMaxPartials * sizeof(Stats)); }

void CudaOps::softmax_cross_entropy(const Tensor& logits, const DeviceBatch& batch, float* stats, RankedClass* ranked) {
  cross_entropy_of_batch(context_, logits, batch, 0, 0, nullptr, stats, ranked, Gradient::overwrite);
}

void CudaOps::softmax_cross_entropy_backward(const Tensor& logits, const DeviceBatch& batch, float scale,
                                             float smoothing, const Tensor& dlogits, float* stats, Gradient mode) {
  cross_entropy_of_batch(context_, logits, batch, scale, smoothing, &dlogits, stats, nullptr, mode);
}

}  // namespace ddp
