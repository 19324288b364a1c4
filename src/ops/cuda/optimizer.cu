#include "core/error.h"
#include "ops/cuda/chunks.cuh"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/reduce.cuh"
#include "ops/functors.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ddp {
namespace {

// A block has the values of one tensor. A step on a part of the buffer clips the first and the last chunk.
struct Chunk {
  int64_t begin, end;  // elements of the flat buffer
  float rate, decay, momentum;
  int32_t tensor;
};

struct ChunksOfTensor {
  int32_t first, count;
  float decay;
  bool adapts;
};

struct KernelArguments {
  float* weights;
  const float* gradients;
  int64_t begin, end;
  float *m, *v;  // state of this part only
  const OptimizerScalars* scalars;
  const float* skip;
  int skips;
  Bf16* rounded;  // of the weights; may be null
};

// Updates the weights of one chunk per block, and `kStates` state buffers.
template <OptimizerDesc::Kind kKind, int kStates, int W>
__global__ void update_kernel(const Chunk* chunks, KernelArguments a, OptimizerDesc desc, const float* factors) {
  await_previous_kernel();
  if (any_set(a.skip, a.skips)) return;
  using enum OptimizerDesc::Kind;
  const Chunk chunk = chunks[blockIdx.x];
  const OptimizerScalars s = *a.scalars;
  const float lr = s.lr * chunk.rate;
  const int64_t begin = max(chunk.begin, a.begin), end = min(chunk.end, a.end);
  each_of_block<W>(begin, end, [&]<int N>(int64_t i) {
    auto w = load<N>(a.weights + i);
    const auto g = load<N>(a.gradients + i);
    Pack<float, N> m, v;
    if constexpr (kStates > 0) m = load<N>(a.m + i - a.begin);
    if constexpr (kStates > 1) v = load<N>(a.v + i - a.begin);
    for (int k = 0; k < N; ++k) {
      if constexpr (kKind == adam) {
        const AdamRule rule{lr,           s.gradient_scale, desc.beta1,    desc.beta2,
                            desc.epsilon, s.correction1,    s.correction2, desc.decoupled};
        rule(w.at[k], g.at[k], m.at[k], v.at[k], chunk.decay);
      } else if constexpr (kKind == lars) {
        const LarsRule rule{lr, s.gradient_scale, chunk.momentum};
        rule(w.at[k], g.at[k], m.at[k], chunk.decay, factors[chunk.tensor]);
      } else {
        const SgdRule rule{lr, s.gradient_scale, chunk.momentum, desc.nesterov, desc.decoupled};
        if constexpr (kStates > 0)
          rule(w.at[k], g.at[k], m.at[k], chunk.decay);
        else
          rule(w.at[k], g.at[k], chunk.decay);
      }
    }
    store<N>(a.weights + i, w);
    if (a.rounded) store<N>(a.rounded + i, w);
    if constexpr (kStates > 0) store<N>(a.m + i - a.begin, m);
    if constexpr (kStates > 1) store<N>(a.v + i - a.begin, v);
  });
}

// The sums of squares of weights and of gradients, for one chunk per block.
template <int W>
__global__ void squares_kernel(const Chunk* chunks, const float* weights, const float* gradients, Sums<2>* squares) {
  await_previous_kernel();
  const Chunk chunk = chunks[blockIdx.x];
  Sums<2> mine{};
  each_of_block<W>(chunk.begin, chunk.end, [&]<int N>(int64_t i) {
    const auto w = load<N>(weights + i), g = load<N>(gradients + i);
    for (int k = 0; k < N; ++k) {
      mine.at[0] += w.at[k] * w.at[k];
      mine.at[1] += g.at[k] * g.at[k];
    }
  });
  const Sums<2> sum = sum_over_block(mine);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

// The rate factors of LARS. Each warp adds the chunks of one tensor.
__global__ void factors_kernel(const ChunksOfTensor* tensors, int count, const Sums<2>* squares, OptimizerDesc desc,
                               const OptimizerScalars* scalars, float* factors) {
  await_previous_kernel();
  const int i = grid_thread() / kWarp, lane = grid_thread() % kWarp;
  if (i >= count) return;
  const ChunksOfTensor tensor = tensors[i];
  Sums<2> sum{};
  for (int k = lane; k < tensor.count; k += kWarp)
    for (int m = 0; m < 2; ++m) sum.at[m] += squares[tensor.first + k].at[m];
  for (float& s : sum.at) s = sum_over_lanes(s, kWarp);
  if (lane > 0) return;
  const LarsFactorOf<float> factor{desc.trust, tensor.decay, scalars->gradient_scale};
  factors[i] = tensor.adapts ? factor(sum.at[0], sum.at[1]) : 1.0f;
}

// A step is one kernel per part. lars runs two kernels before it: one for the norms of all tensors and one for their
// rate factors.
class CudaOptimizer final : public OptimizerOp {
 public:
  CudaOptimizer(CudaContext& context, const OptimizerDesc& desc, std::span<const OptimizerTensor> tensors)
      : context_(context),
        desc_(desc),
        host_chunks_(make_chunks<Chunk>(tensors,
                                        [&](Chunk& chunk, size_t i) {
                                          chunk.rate = tensors[i].rate;
                                          chunk.decay = tensors[i].decay;
                                          chunk.momentum = tensors[i].momentum;
                                          chunk.tensor = static_cast<int32_t>(i);
                                        })),
        chunks_(uploaded(context.device, host_chunks_)) {
    if (desc.kind != OptimizerDesc::Kind::lars) return;
    std::vector<ChunksOfTensor> chunks_of;
    for (const OptimizerTensor& t : tensors) chunks_of.push_back({0, 0, t.decay, t.adapts});
    for (size_t c = 0; c < host_chunks_.size(); ++c) {
      ChunksOfTensor& tensor = chunks_of[host_chunks_[c].tensor];
      if (tensor.count++ == 0) tensor.first = static_cast<int32_t>(c);
    }
    tensors_ = uploaded(context.device, chunks_of);
    squares_ = Buffer(context.device, host_chunks_.size() * sizeof(Sums<2>));
    factors_ = Buffer(context.device, chunks_of.size() * sizeof(float));
  }

  void step(const OptimizerPart& part, const OptimizerScalars* scalars, std::span<const float> skip) override {
    using enum OptimizerDesc::Kind;
    const KernelArguments arguments{part.weights,
                                    part.gradients,
                                    part.begin,
                                    part.begin + part.count,
                                    part.state[0],
                                    part.state[1],
                                    scalars,
                                    skip.data(),
                                    static_cast<int>(skip.size()),
                                    reinterpret_cast<Bf16*>(part.bf16_weights)};
    const bool wide =
        aligned(part.weights, part.gradients, part.state[0], part.state[1], part.bf16_weights) && part.begin % 4 == 0;
    const auto start = [&]<int W>() {
      if (desc_.kind == adam) {
        update<W>(update_kernel<adam, 2, W>, arguments);
      } else if (desc_.kind == lars) {
        find_factors<W>(arguments);
        update<W>(update_kernel<lars, 1, W>, arguments);
      } else {
        update<W>(desc_.states() > 0 ? update_kernel<sgd, 1, W> : update_kernel<sgd, 0, W>, arguments);
      }
    };
    wide ? start.template operator()<4>() : start.template operator()<1>();
  }

 private:
  template <int W, class Kernel>
  void update(Kernel* kernel, const KernelArguments& a) {
    const std::span<const Chunk> all(host_chunks_), mine = chunks_in(all, a.begin, a.end);
    if (mine.empty()) return;
    launch(context_.stream, std::ssize(mine), kThreads, kernel,
           chunks_.as<const Chunk>() + (mine.data() - host_chunks_.data()), a, desc_, factors_.as<const float>());
  }

  template <int W>
  void find_factors(const KernelArguments& a) {
    const int64_t tensors = static_cast<int64_t>(factors_.bytes() / sizeof(float));
    DDP_EXPECT(host_chunks_.empty() || (a.begin <= host_chunks_[0].begin && host_chunks_.back().end <= a.end));
    launch(context_.stream, std::ssize(host_chunks_), kThreads, squares_kernel<W>, chunks_.as<const Chunk>(), a.weights,
           a.gradients, squares_.as<Sums<2>>());
    launch(context_.stream, blocks_for(tensors * kWarp, kThreads), kThreads, factors_kernel,
           tensors_.as<const ChunksOfTensor>(), tensors, squares_.as<const Sums<2>>(), desc_, a.scalars,
           factors_.as<float>());
  }

  CudaContext& context_;
  OptimizerDesc desc_;
  std::vector<Chunk> host_chunks_;
  Buffer chunks_, tensors_, squares_, factors_;
};

}  // namespace

std::unique_ptr<OptimizerOp> CudaOps::optimizer(const OptimizerDesc& desc, std::span<const OptimizerTensor> tensors) {
  return std::make_unique<CudaOptimizer>(context_, desc, tensors);
}

}  // namespace ddp
