// Attention by tiles of 64 queries and 64 keys (Dao et al., "FlashAttention", 2022), in f32. Scores stay in registers
// and shared memory. A block owns its outputs and takes the other tiles in order, so all sums have a fixed order: the
// forward pass and the gradient of the queries have a block for each tile of queries, the gradients of keys and values
// one for each tile of keys. Heads of more than 64 values have a block for each 64 of their outputs.
#include "core/error.h"
#include "ops/attention.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/pack.cuh"
#include "ops/cuda/reduce.cuh"

#include <algorithm>
#include <cmath>

namespace ddp {
namespace {

constexpr int kTile = 64, kDepth = 16;
constexpr int kSide = 16;            // a block has kSide x kSide threads
constexpr int kOwn = kTile / kSide;  // a thread has the rows ty + kSide * i and the columns tx + kSide * j of a tile
static_assert(kSide * kSide == kThreads);

struct HeadShape {
  int tokens, size, heads;
  int64_t width;
  bool causal;
  float scale;

  __host__ __device__ int tiles() const { return (tokens + kTile - 1) / kTile; }
  __host__ __device__ int parts() const { return (size + kTile - 1) / kTile; }
};

// From the last forward and the start of a backward, [sample][head][token].
struct SavedRows {
  float *maximum, *inverse;  // of the scores, and 1 / (sum of the exponentials)
  float* mean;               // of dp under p
};

// The work of a block.
struct TilePlace {
  int first;            // token
  int part;             // first value of the outputs in the head
  int64_t row;          // of SavedRows, for the first token of the sample
  int64_t qkv, values;  // elements before the head in the first token of qkv and y

  __device__ explicit TilePlace(const HeadShape& s) {
    const int tile = blockIdx.x % s.tiles();
    const int64_t rest = blockIdx.x / s.tiles(), head = rest / s.parts() % s.heads, sample = rest / s.parts() / s.heads;
    first = tile * kTile;
    part = static_cast<int>(rest % s.parts()) * kTile;
    row = (sample * s.heads + head) * s.tokens;
    values = sample * s.tokens * s.width + head * s.size;
    qkv = 3 * sample * s.tokens * s.width + head * s.size;
  }
};

// Some rows of a head.
template <class T>
struct HeadRows {
  T* at;
  int64_t stride;

  __device__ HeadRows from(int row) const { return {at + row * stride, stride}; }
};

using OwnTile = float[kOwn][kOwn];

struct SharedTiles {
  float left[kTile][kDepth + 1], right[kTile][kDepth + 1];
  float weights[kTile][kTile + 1];
  float values[kTile][kTile];
};

__device__ inline int thread_column() { return threadIdx.x % kSide; }
__device__ inline int thread_row() { return threadIdx.x / kSide; }

// sums[row][column] += left[row] . right[column], over `size` values. It begins with a barrier.
template <class T>
__device__ void add_products(HeadRows<const T> left, int left_rows, HeadRows<const T> right, int right_rows, int size,
                             SharedTiles& shared, OwnTile& sums) {
  for (int first = 0; first < size; first += kDepth) {
    __syncthreads();
    for (int e = threadIdx.x; e < kTile * kDepth; e += kThreads) {
      const int row = e / kDepth, k = e % kDepth;
      const bool inside = first + k < size;
      shared.left[row][k] = inside && row < left_rows ? to_float(left.at[row * left.stride + first + k]) : 0.0f;
      shared.right[row][k] = inside && row < right_rows ? to_float(right.at[row * right.stride + first + k]) : 0.0f;
    }
    __syncthreads();
    for (int k = 0; k < kDepth; ++k) {
      float a[kOwn], b[kOwn];
      for (int i = 0; i < kOwn; ++i) a[i] = shared.left[thread_row() + kSide * i][k];
      for (int j = 0; j < kOwn; ++j) b[j] = shared.right[thread_column() + kSide * j][k];
      for (int i = 0; i < kOwn; ++i)
        for (int j = 0; j < kOwn; ++j) sums[i][j] += a[i] * b[j];
    }
  }
}

// sums[row][column] += sum over k of shared.weights[row][k] * values[k][column]. It begins with a barrier.
template <class T>
__device__ void add_weighted(HeadRows<const T> values, int rows, int columns, SharedTiles& shared, OwnTile& sums) {
  __syncthreads();
  for (int e = threadIdx.x; e < kTile * kTile; e += kThreads) {
    const int row = e / kTile, column = e % kTile;
    shared.values[row][column] =
        row < rows && column < columns ? to_float(values.at[row * values.stride + column]) : 0.0f;
  }
  __syncthreads();
  for (int k = 0; k < kTile; ++k) {
    float a[kOwn], b[kOwn];
    for (int i = 0; i < kOwn; ++i) a[i] = shared.weights[thread_row() + kSide * i][k];
    for (int j = 0; j < kOwn; ++j) b[j] = shared.values[k][thread_column() + kSide * j];
    for (int i = 0; i < kOwn; ++i)
      for (int j = 0; j < kOwn; ++j) sums[i][j] += a[i] * b[j];
  }
}

__device__ inline void store_weights(const OwnTile& tile, SharedTiles& shared) {
  for (int i = 0; i < kOwn; ++i)
    for (int j = 0; j < kOwn; ++j) shared.weights[thread_row() + kSide * i][thread_column() + kSide * j] = tile[i][j];
}

template <class T>
__device__ void write_tile(const OwnTile& tile, float scale, int rows, int columns, HeadRows<T> to) {
  for (int i = 0; i < kOwn; ++i)
    for (int j = 0; j < kOwn; ++j) {
      const int row = thread_row() + kSide * i, column = thread_column() + kSide * j;
      if (row < rows && column < columns) from_float(scale * tile[i][j], to.at[row * to.stride + column]);
    }
}

__device__ inline bool attends(const HeadShape& s, int query, int key) {
  return query < s.tokens && key < s.tokens && (!s.causal || key <= query);
}

__device__ inline float max_over_lanes(float value, int lanes) {
  for (int offset = lanes / 2; offset > 0; offset /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}

// A score, rounded before a later operation: forward and backward get the same bits.
__device__ inline float scaled(const HeadShape& s, float product) { return __fmul_rn(product, s.scale); }

template <class T>
__global__ void __launch_bounds__(kThreads) attention_kernel(const T* qkv, T* y, HeadShape s, SavedRows saved) {
  await_previous_kernel();
  __shared__ SharedTiles shared;
  const TilePlace place(s);
  const int64_t stride = 3 * s.width;
  const HeadRows<const T> queries{qkv + place.qkv, stride}, keys{queries.at + s.width, stride},
      values_of_part{keys.at + s.width + place.part, stride};
  const int rows = min(kTile, s.tokens - place.first), columns = min(kTile, s.size - place.part);
  const int end = s.causal ? place.first + rows : s.tokens;
  OwnTile out = {};
  float maximum[kOwn], sum[kOwn] = {};
  for (float& m : maximum) m = -INFINITY;
  for (int first = 0; first < end; first += kTile) {
    const int count = min(kTile, s.tokens - first);
    OwnTile p = {};
    add_products(queries.from(place.first), rows, keys.from(first), count, s.size, shared, p);
    for (int i = 0; i < kOwn; ++i) {
      const int query = min(place.first + thread_row() + kSide * i, s.tokens - 1);
      float largest = maximum[i];
      for (int j = 0; j < kOwn; ++j) {
        p[i][j] = attends(s, query, first + thread_column() + kSide * j) ? scaled(s, p[i][j]) : -INFINITY;
        largest = fmaxf(largest, p[i][j]);
      }
      largest = max_over_lanes(largest, kSide);
      const float correction = std::exp(maximum[i] - largest);
      maximum[i] = largest;
      sum[i] *= correction;
      for (int j = 0; j < kOwn; ++j) {
        p[i][j] = std::exp(p[i][j] - largest);
        sum[i] += p[i][j];
        out[i][j] *= correction;
      }
    }
    store_weights(p, shared);
    add_weighted(values_of_part.from(first), count, columns, shared, out);
  }
  for (int i = 0; i < kOwn; ++i) {
    const float inverse = 1 / sum_over_lanes(sum[i], kSide);
    for (int j = 0; j < kOwn; ++j) out[i][j] *= inverse;
    const int row = thread_row() + kSide * i;
    if (!saved.maximum || place.part > 0 || thread_column() > 0 || row >= rows) continue;
    saved.maximum[place.row + place.first + row] = maximum[i];
    saved.inverse[place.row + place.first + row] = inverse;
  }
  const HeadRows<T> to{y + place.values + place.part, s.width};
  write_tile(out, 1.0f, rows, columns, to.from(place.first));
}

// The mean of dp under p, which is dy . y, with a warp for each row.
template <class T>
__global__ void __launch_bounds__(kThreads)
    attention_mean_kernel(const T* y, const T* dy, HeadShape s, int64_t rows, float* mean) {
  await_previous_kernel();
  const int64_t row = grid_thread() / kWarp;
  if (row >= rows) return;
  const int64_t token = row % s.tokens, head = row / s.tokens % s.heads, sample = row / s.tokens / s.heads;
  const int64_t at = (sample * s.tokens + token) * s.width + head * s.size;
  float sum = 0;
  for (int k = static_cast<int>(threadIdx.x) % kWarp; k < s.size; k += kWarp)
    sum += to_float(y[at + k]) * to_float(dy[at + k]);
  sum = sum_over_lanes(sum, kWarp);
  if (threadIdx.x % kWarp == 0) mean[row] = sum;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    attention_dqueries_kernel(const T* qkv, const T* dy, T* dqkv, HeadShape s, SavedRows saved) {
  await_previous_kernel();
  __shared__ SharedTiles shared;
  const TilePlace place(s);
  const int64_t stride = 3 * s.width;
  const HeadRows<const T> queries{qkv + place.qkv, stride}, keys{queries.at + s.width, stride},
      values{keys.at + s.width, stride}, gradients{dy + place.values, s.width},
      keys_of_part{keys.at + place.part, stride};
  const int rows = min(kTile, s.tokens - place.first), columns = min(kTile, s.size - place.part);
  const int end = s.causal ? place.first + rows : s.tokens;
  OwnTile out = {};
  for (int first = 0; first < end; first += kTile) {
    const int count = min(kTile, s.tokens - first);
    OwnTile ds = {}, dp = {};
    add_products(queries.from(place.first), rows, keys.from(first), count, s.size, shared, ds);
    add_products(gradients.from(place.first), rows, values.from(first), count, s.size, shared, dp);
    for (int i = 0; i < kOwn; ++i)
      for (int j = 0; j < kOwn; ++j) {
        const int query = place.first + thread_row() + kSide * i, key = first + thread_column() + kSide * j;
        const int64_t row = place.row + query;
        ds[i][j] = attends(s, query, key) ? std::exp(scaled(s, ds[i][j]) - saved.maximum[row]) * saved.inverse[row] *
                                                (dp[i][j] - saved.mean[row])
                                          : 0.0f;
      }
    store_weights(ds, shared);
    add_weighted(keys_of_part.from(first), count, columns, shared, out);
  }
  const HeadRows<T> to{dqkv + place.qkv + place.part, stride};
  write_tile(out, s.scale, rows, columns, to.from(place.first));
}

// Here the rows of a tile are keys.
template <class T>
__global__ void __launch_bounds__(kThreads)
    attention_dkeys_kernel(const T* qkv, const T* dy, T* dqkv, HeadShape s, SavedRows saved) {
  await_previous_kernel();
  __shared__ SharedTiles shared;
  const TilePlace place(s);
  const int64_t stride = 3 * s.width;
  const HeadRows<const T> queries{qkv + place.qkv, stride}, keys{queries.at + s.width, stride},
      values{keys.at + s.width, stride}, gradients{dy + place.values, s.width};
  const HeadRows<const T> queries_of_part{queries.at + place.part, stride},
      gradients_of_part{gradients.at + place.part, s.width};
  const int rows = min(kTile, s.tokens - place.first), columns = min(kTile, s.size - place.part);
  OwnTile dkeys = {}, dvalues = {};
  for (int first = s.causal ? place.first : 0; first < s.tokens; first += kTile) {
    const int count = min(kTile, s.tokens - first);
    OwnTile p = {}, ds = {};
    add_products(keys.from(place.first), rows, queries.from(first), count, s.size, shared, p);
    add_products(values.from(place.first), rows, gradients.from(first), count, s.size, shared, ds);
    for (int i = 0; i < kOwn; ++i)
      for (int j = 0; j < kOwn; ++j) {
        const int key = place.first + thread_row() + kSide * i, query = first + thread_column() + kSide * j;
        const int64_t row = place.row + query;
        const bool counts = attends(s, query, key);
        p[i][j] = counts ? std::exp(scaled(s, p[i][j]) - saved.maximum[row]) * saved.inverse[row] : 0.0f;
        ds[i][j] = counts ? p[i][j] * (ds[i][j] - saved.mean[row]) : 0.0f;
      }
    store_weights(p, shared);
    add_weighted(gradients_of_part.from(first), count, columns, shared, dvalues);
    __syncthreads();
    store_weights(ds, shared);
    add_weighted(queries_of_part.from(first), count, columns, shared, dkeys);
  }
  const HeadRows<T> to{dqkv + place.qkv + s.width + place.part, stride};
  write_tile(dkeys, s.scale, rows, columns, to.from(place.first));
  write_tile(dvalues, 1.0f, rows, columns, HeadRows<T>{to.at + s.width, stride}.from(place.first));
}

class CudaAttention final : public Attention {
 public:
  CudaAttention(CudaContext& context, const AttentionDesc& desc, std::span<const int64_t> batch_sizes)
      : context_(context), desc_(desc) {
    DDP_EXPECT(desc.tokens > 0 && desc.width % desc.heads == 0);
    for (const int64_t n : batch_sizes) max_batch_ = std::max(max_batch_, n);
    if (desc.gradients) saved_ = Buffer(context.device, bytes_of_floats(3 * rows(max_batch_)));
  }

  void forward(const Tensor& qkv, const Tensor& y) override {
    check(qkv, 3);
    check(y, 1);
    with_packs(qkv.dtype, 1, [&]<class T, int>() {
      launch(context_.stream, blocks(qkv.shape.n), kThreads, attention_kernel<T>, data<T>(qkv), data<T>(y), shape(),
             saved());
    });
  }

  void backward(const Tensor& qkv, const Tensor& y, const Tensor& dy, const Tensor& dqkv) override {
    DDP_EXPECT(desc_.gradients);
    check(qkv, 3);
    check(y, 1);
    check(dy, 1);
    check(dqkv, 3);
    const int64_t n = qkv.shape.n;
    with_packs(qkv.dtype, 1, [&]<class T, int>() {
      launch(context_.stream, blocks_for(rows(n), kThreads / kWarp), kThreads, attention_mean_kernel<T>, data<T>(y),
             data<T>(dy), shape(), rows(n), saved().mean);
      launch(context_.stream, blocks(n), kThreads, attention_dqueries_kernel<T>, data<T>(qkv), data<T>(dy),
             data<T>(dqkv), shape(), saved());
      launch(context_.stream, blocks(n), kThreads, attention_dkeys_kernel<T>, data<T>(qkv), data<T>(dy), data<T>(dqkv),
             shape(), saved());
    });
  }

 private:
  HeadShape shape() const {
    const int64_t size = desc_.width / desc_.heads;
    return {static_cast<int>(desc_.tokens),
            static_cast<int>(size),
            static_cast<int>(desc_.heads),
            desc_.width,
            desc_.causal,
            1 / std::sqrt(static_cast<float>(size))};
  }
  int64_t rows(int64_t n) const { return n * desc_.heads * desc_.tokens; }
  int64_t blocks(int64_t n) const { return n * desc_.heads * shape().tiles() * shape().parts(); }

  SavedRows saved() const {
    float* const at = saved_.as<float>();
    const int64_t count = rows(max_batch_);
    return at ? SavedRows{at, at + count, at + 2 * count} : SavedRows{};
  }

  void check(const Tensor& t, int64_t parts) const {
    DDP_EXPECT(t.format == Format{} && t.dtype == context_.activations());
    DDP_EXPECT(t.shape.image.elements() == desc_.tokens * desc_.width * parts);
    DDP_EXPECT(t.data && t.shape.n <= max_batch_);
  }

  CudaContext& context_;
  AttentionDesc desc_;
  int64_t max_batch_ = 0;  // samples
  Buffer saved_;           // SavedRows
};

}  // namespace

std::unique_ptr<Attention> make_attention_kernels(CudaContext& context, const AttentionDesc& desc,
                                                  std::span<const int64_t> batch_sizes) {
  return std::make_unique<CudaAttention>(context, desc, batch_sizes);
}

}  // namespace ddp
