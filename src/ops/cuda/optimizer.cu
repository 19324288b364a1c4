#include "core/error.h"
#include "ops/cuda/optimizer.h"
#include "ops/cuda/pack.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/functors.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ddp {
namespace {

// The tensors are cut into chunks, which never hold parts of two: a block has a chunk, and so one weight decay and one
// factor. A part leaves out the chunks, and what of the first and the last, lies outside it.
struct Chunk {
  int64_t begin, end;  // elements of the flat buffer
  float decay;
  int32_t tensor;
};

struct ChunksOfTensor {
  int32_t first, count;
  bool decays;
};

// About as many as run at once, a multiple of a block's packs long.
std::vector<Chunk> cut(std::span<const OptimizerTensor> tensors, float decay) {
  constexpr int64_t kRound = kThreads * 4;
  int64_t total = 0;
  for (const OptimizerTensor& t : tensors) total += t.count;
  const int64_t length = std::max<int64_t>((total / kMostBlocks + kRound - 1) / kRound, 1) * kRound;
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const OptimizerTensor& t = tensors[i];
    DDP_EXPECT(t.offset % 16 == 0 && (i == 0 || t.offset >= tensors[i - 1].offset + tensors[i - 1].count));
    for (int64_t at = 0; at < t.count; at += length)
      chunks.push_back(
          {t.offset + at, t.offset + std::min(at + length, t.count), t.decays ? decay : 0.0f, static_cast<int32_t>(i)});
  }
  return chunks;
}

// body<N>(i) for the elements of [begin, end), by the threads of one block; begin is a multiple of N.
template <int W, class Body>
__device__ void each_of_block(int64_t begin, int64_t end, const Body& body) {
  each_pack<W>(end - begin, threadIdx.x, blockDim.x, [&]<int N>(int64_t i) { body.template operator()<N>(begin + i); });
}

struct Part {
  float* weights;
  const float* gradients;
  int64_t begin, end;
  float *m, *v;  // of the part only
  const OptimizerScalars* scalars;
  const float* skip;
  int skips;
};

// What the weights of a chunk become. `kStates` buffers are read and written beside them.
template <OptimizerDesc::Kind kKind, int kStates, int W>
__global__ void update_kernel(const Chunk* chunks, Part part, OptimizerDesc desc, const float* factors) {
  if (any_set(part.skip, part.skips)) return;
  using enum OptimizerDesc::Kind;
  const Chunk chunk = chunks[blockIdx.x];
  const OptimizerScalars s = *part.scalars;
  const int64_t begin = max(chunk.begin, part.begin), end = min(chunk.end, part.end);
  each_of_block<W>(begin, end, [&]<int N>(int64_t i) {
    auto w = load<N>(part.weights + i);
    const auto g = load<N>(part.gradients + i);
    Pack<float, N> m, v;
    if constexpr (kStates > 0) m = load<N>(part.m + i - part.begin);
    if constexpr (kStates > 1) v = load<N>(part.v + i - part.begin);
    for (int k = 0; k < N; ++k) {
      if constexpr (kKind == adam) {
        const AdamRule rule{s.lr,         s.gradient_scale, desc.beta1,    desc.beta2,
                            desc.epsilon, s.correction1,    s.correction2, desc.decoupled};
        rule(w.at[k], g.at[k], m.at[k], v.at[k], chunk.decay);
      } else if constexpr (kKind == lars) {
        const LarsRule rule{s.lr, s.gradient_scale, desc.momentum};
        rule(w.at[k], g.at[k], m.at[k], chunk.decay, factors[chunk.tensor]);
      } else {
        const SgdRule rule{s.lr, s.gradient_scale, desc.momentum, desc.nesterov, desc.decoupled};
        if constexpr (kStates > 0)
          rule(w.at[k], g.at[k], m.at[k], chunk.decay);
        else
          rule(w.at[k], g.at[k], chunk.decay);
      }
    }
    store<N>(part.weights + i, w);
    if constexpr (kStates > 0) store<N>(part.m + i - part.begin, m);
    if constexpr (kStates > 1) store<N>(part.v + i - part.begin, v);
  });
}

// Each chunk's sums of squares of weights and of gradients.
template <int W>
__global__ void squares_kernel(const Chunk* chunks, const float* weights, const float* gradients, Sums<2>* squares) {
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

// A warp has a tensor, and adds its chunks up.
__global__ void factors_kernel(const ChunksOfTensor* tensors, int count, const Sums<2>* squares, OptimizerDesc desc,
                               const OptimizerScalars* scalars, float* factors) {
  const int i = grid_thread() / kWarp, lane = grid_thread() % kWarp;
  if (i >= count) return;
  const ChunksOfTensor tensor = tensors[i];
  Sums<2> sum{};
  for (int k = lane; k < tensor.count; k += kWarp)
    for (int m = 0; m < 2; ++m) sum.at[m] += squares[tensor.first + k].at[m];
  for (float& s : sum.at) s = sum_over_lanes(s, kWarp);
  if (lane > 0) return;
  const LarsFactorOf<float> factor{desc.trust, desc.weight_decay, scalars->gradient_scale};
  factors[i] = tensor.decays ? factor(sum.at[0], sum.at[1]) : 1.0f;
}

template <class T>
Buffer uploaded(Device& device, const std::vector<T>& values) {
  Buffer buffer(device, values.size() * sizeof(T));
  device.upload(buffer.data(), values.data(), buffer.bytes());
  return buffer;
}

class CudaOptimizer final : public OptimizerOp {
 public:
  CudaOptimizer(CudaContext& context, const OptimizerDesc& desc, std::span<const OptimizerTensor> tensors)
      : context_(context),
        desc_(desc),
        host_chunks_(cut(tensors, desc.weight_decay)),
        chunks_(uploaded(context.device, host_chunks_)) {
    if (desc.kind != OptimizerDesc::Kind::lars) return;
    std::vector<ChunksOfTensor> chunks_of;
    for (const OptimizerTensor& t : tensors) chunks_of.push_back({0, 0, t.decays});
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
    const Part on_device{part.weights,  part.gradients, part.begin,  part.begin + part.count,      part.state[0],
                         part.state[1], scalars,        skip.data(), static_cast<int>(skip.size())};
    const bool wide = aligned(part.weights, part.gradients, part.state[0], part.state[1]) && part.begin % 4 == 0;
    const auto start = [&]<int W>() {
      if (desc_.kind == adam) {
        update<W>(update_kernel<adam, 2, W>, on_device);
      } else if (desc_.kind == lars) {
        find_factors<W>(on_device);
        update<W>(update_kernel<lars, 1, W>, on_device);
      } else {
        update<W>(desc_.momentum != 0 ? update_kernel<sgd, 1, W> : update_kernel<sgd, 0, W>, on_device);
      }
    };
    wide ? start.template operator()<4>() : start.template operator()<1>();
  }

 private:
  template <int W, class Kernel>
  void update(Kernel* kernel, const Part& part) {
    const auto first = std::ranges::partition_point(host_chunks_, [&](const Chunk& c) { return c.end <= part.begin; });
    const auto end = std::ranges::partition_point(host_chunks_, [&](const Chunk& c) { return c.begin < part.end; });
    if (first >= end) return;
    launch(context_.stream, end - first, kThreads, kernel, chunks_.as<const Chunk>() + (first - host_chunks_.begin()),
           part, desc_, factors_.as<const float>());
  }

  template <int W>
  void find_factors(const Part& part) {
    const int64_t tensors = static_cast<int64_t>(factors_.bytes() / sizeof(float));
    DDP_EXPECT(host_chunks_.empty() || (part.begin <= host_chunks_[0].begin && host_chunks_.back().end <= part.end));
    launch(context_.stream, std::ssize(host_chunks_), kThreads, squares_kernel<W>, chunks_.as<const Chunk>(),
           part.weights, part.gradients, squares_.as<Sums<2>>());
    launch(context_.stream, blocks_for(tensors * kWarp, kThreads), kThreads, factors_kernel,
           tensors_.as<const ChunksOfTensor>(), tensors, squares_.as<const Sums<2>>(), desc_, part.scalars,
           factors_.as<float>());
  }

  CudaContext& context_;
  OptimizerDesc desc_;
  std::vector<Chunk> host_chunks_;
  Buffer chunks_, tensors_, squares_, factors_;
};

}  // namespace

std::unique_ptr<OptimizerOp> make_optimizer(CudaContext& context, const OptimizerDesc& desc,
                                            std::span<const OptimizerTensor> tensors) {
  return std::make_unique<CudaOptimizer>(context, desc, tensors);
}

}  // namespace ddp
