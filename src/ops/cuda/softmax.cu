#include "core/error.h"
#include "ops/cuda/pack.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda/softmax.h"
#include "ops/functors.h"

#include <cmath>

namespace ddp {
namespace {

constexpr int kBlock = 512;
constexpr int kWarps = kBlock / kWarp;
constexpr int64_t kMostPartials = kThreads;  // one for each thread that adds them
constexpr int64_t kRoundsAlone = 4;          // that one block may take before several and a second kernel are faster

struct Stats {
  float loss, correct;
};

// The sum over a block of full warps, in a fixed order; in thread 0.
__device__ Stats sum_over_block(Stats mine) {
  __shared__ float losses[kWarps], corrects[kWarps];
  const int thread = threadIdx.x;
  const Stats warp{sum_over_lanes(mine.loss, kWarp), sum_over_lanes(mine.correct, kWarp)};
  if (thread % kWarp == 0) {
    losses[thread / kWarp] = warp.loss;
    corrects[thread / kWarp] = warp.correct;
  }
  __syncthreads();
  Stats sum{0, 0};
  if (thread == 0)
    for (int w = 0; w < static_cast<int>(blockDim.x) / kWarp; ++w) {
      sum.loss += losses[w];
      sum.correct += corrects[w];
    }
  return sum;
}

// A group of `lanes` neighbouring threads has one sample at a time, each of them every lanes-th class. Each class is
// read and written by one thread only, so that dlogits may be logits. `stats` has a place for each block.
template <class T>
__global__ void softmax_kernel(const T* logits, const int32_t* labels, const int32_t* ids, int64_t samples, int classes,
                               int lanes, float scale, T* dlogits, Stats* stats) {
  const int lane = grid_thread() % lanes, in_warp = kWarp / lanes;
  const int64_t warp = grid_thread() / kWarp, stride = grid_threads() / lanes;
  Stats mine{0, 0};
  // All lanes of a warp go round as often, as they exchange values.
  for (int64_t first = warp * in_warp; first < samples; first += stride) {
    const int64_t sample = first + static_cast<int>(threadIdx.x) % kWarp / lanes;
    const int mine_end = sample < samples ? classes : 0;
    const int label = sample < samples ? labels[ids ? ids[sample] : sample] : 0;
    const T* z = logits + sample * classes;

    float max = -INFINITY, label_logit = 0;
    int best = classes;
    for (int k = lane; k < mine_end; k += lanes) {
      const float value = to_float(z[k]);
      if (k == label) label_logit = value;
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

    float sum = 0;
    for (int k = lane; k < mine_end; k += lanes) sum += std::exp(to_float(z[k]) - max);
    sum = sum_over_lanes(sum, lanes);
    label_logit = sum_over_lanes(label_logit, lanes);
    if (lane == 0 && sample < samples) {
      mine.loss += std::log(sum) - (label_logit - max);
      mine.correct += best == label ? 1.0f : 0.0f;
    }
    if (!dlogits) continue;
    const float reciprocal = 1.0f / sum;
    for (int k = lane; k < mine_end; k += lanes) {
      const float gradient = SoftmaxGradient{scale}(std::exp(to_float(z[k]) - max), reciprocal, k == label);
      from_float(gradient, dlogits[sample * classes + k]);
    }
  }
  const Stats sum = sum_over_block(mine);
  if (threadIdx.x == 0) stats[blockIdx.x] = sum;
}

__global__ void add_stats_kernel(const Stats* partials, int count, Stats* stats) {
  const int i = threadIdx.x;
  const Stats mine = i < count ? partials[i] : Stats{0, 0};
  const Stats sum = sum_over_block(mine);
  if (threadIdx.x == 0) *stats = sum;
}

// So many that each has at most 8 classes, up to a warp.
int lanes_for(int64_t classes) {
  int lanes = 1;
  while (lanes < kWarp && classes > 8 * lanes) lanes *= 2;
  return lanes;
}

}  // namespace

void reserve_softmax(CudaContext& context) { context.workspace.reserve(kMostPartials * sizeof(Stats)); }

void softmax_cross_entropy(CudaContext& context, const Tensor& logits, const Samples& samples, float scale,
                           const Tensor* dlogits, float* stats) {
  const int64_t n = logits.shape.n, classes = logits.shape.image.c;
  DDP_EXPECT(logits.format == Format{} && logits.shape.image.elements() == classes && samples.size == n);
  DDP_EXPECT(!dlogits || (dlogits->format == Format{} && dlogits->dtype == logits.dtype));
  DDP_EXPECT(!dlogits || dlogits->shape == logits.shape);

  const int lanes = lanes_for(classes);
  const int64_t threads = (n * lanes + kWarp - 1) / kWarp * kWarp;
  const int64_t most = std::min(kMostPartials, static_cast<int64_t>(context.workspace.bytes() / sizeof(Stats)));
  const bool alone = threads <= kRoundsAlone * kBlock || most < 2;
  const int64_t blocks = alone ? 1 : std::min(blocks_for(threads, kThreads), most);
  const int block = alone ? static_cast<int>(std::min<int64_t>(threads, kBlock)) : kThreads;
  auto* result = reinterpret_cast<Stats*>(stats);
  auto* partials = alone ? result : static_cast<Stats*>(context.workspace.data());
  with_packs(logits.dtype, 1, [&]<class T, int>() {
    launch(context.stream, blocks, block, softmax_kernel<T>, static_cast<const T*>(logits.data), samples.labels,
           samples.ids, n, classes, lanes, scale, dlogits ? static_cast<T*>(dlogits->data) : nullptr, partials);
  });
  if (!alone) launch(context.stream, 1, kThreads, add_stats_kernel, partials, blocks, result);
}

}  // namespace ddp
