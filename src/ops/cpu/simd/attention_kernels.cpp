// Attention of one head, for blocks of queries. The operands are copied to f32 without gaps, the keys and values
// transposed in panels of columns. So all products are row by row times a matrix whose rows are contiguous.
//
// The forward pass has the scores of a block of queries with all keys. The backward pass computes them again, in the
// same order of sums, for one panel of keys at a time, and so has the same bits: p = exp(score - maximum) / sum.
#include "ops/activation_functors.h"
#include "ops/cpu/simd/row_sums.h"
#include "ops/cpu/simd/tables.h"
#include "ops/cpu/simd/vectors.h"

namespace ddp::DDP_ISA {
namespace {

constexpr long kQueries = 48;  // of a block, a multiple of kTileRows
constexpr long kPanel = 64;    // columns of a panel
constexpr long kDepth = 128;   // rows of the second matrix that stay in the L1 cache
constexpr int kTileRows = 6;   // of a product, in registers
#ifdef __AVX512F__
constexpr int kTileVectors = 4;
#else
constexpr int kTileVectors = 1;
#endif

constexpr float kNoScore = -__builtin_inff();

constexpr long smaller(long a, long b) { return a < b ? a : b; }
constexpr long padded(long count, long multiple) { return (count + multiple - 1) / multiple * multiple; }

inline void fill(float* first, float* end, float value) {
  for (; first < end; ++first) *first = value;
}

// A matrix whose element (i, k) is at[i * row + k * column].
struct LeftMatrix {
  const float* at;
  long row, column;
};

template <int R, int V>
inline void product_tile(const LeftMatrix& a, const float* b, long b_row, long depth, float* c, long c_row, bool add) {
  Vector<16> sums[R][V] = {};
  if (add)
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < V; ++v) sums[r][v] = load<16>(c + r * c_row + 16 * v);
  for (long k = 0; k < depth; ++k) {
    Vector<16> row[V];
    for (int v = 0; v < V; ++v) row[v] = load<16>(b + k * b_row + 16 * v);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const float factor = a.at[r * a.row + k * a.column];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sums[r][v] += factor * row[v];
    }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) store<16>(c + r * c_row + 16 * v, sums[r][v]);
}

template <int V>
inline void product_rows(LeftMatrix a, const float* b, long b_row, long rows, long depth, float* c, long c_row,
                         bool add) {
  const auto next = [&](auto count) {
    product_tile<count, V>(a, b, b_row, depth, c, c_row, add);
    a.at += count * a.row;
    c += count * c_row;
    rows -= count;
  };
  while (rows >= kTileRows) next(std::integral_constant<int, kTileRows>{});
  while (rows >= 2) next(std::integral_constant<int, 2>{});
  if (rows > 0) next(std::integral_constant<int, 1>{});
}

// c[rows][columns] = a[rows][depth] * b[depth][columns], or adds that; columns is a multiple of 16.
void multiply(const LeftMatrix& a, const float* b, long b_row, long rows, long columns, long depth, float* c,
              long c_row, bool add) {
  for (long k = 0; k < depth; k += kDepth) {
    const LeftMatrix from{a.at + k * a.column, a.row, a.column};
    const long count = smaller(kDepth, depth - k);
    long column = 0;
    for (; column + 16 * kTileVectors <= columns; column += 16 * kTileVectors)
      product_rows<kTileVectors>(from, b + k * b_row + column, b_row, rows, count, c + column, c_row, add || k > 0);
    for (; column < columns; column += 16)
      product_rows<1>(from, b + k * b_row + column, b_row, rows, count, c + column, c_row, add || k > 0);
  }
}

// to[rows][padded size] = scale * from, with zeros behind each row.
template <class T>
void copy_rows(const T* from, long stride, long rows, long size, float scale, float* to) {
  const long row = padded(size, 16);
  for (long i = 0; i < rows; ++i, from += stride, to += row) {
    each_column(size, [&](auto length, long k) { store<length>(to + k, load<length>(from + k) * scale); });
    fill(to + size, to + row, 0.0f);
  }
}

// Panels of kPanel tokens; value k of token j of a panel is panel[k][j]. Tokens past the last are 0.
template <class T>
void transpose(const T* from, long stride, long tokens, long size, float* to) {
  for (long first = 0; first < tokens; first += kPanel, to += size * kPanel) {
    const long count = smaller(kPanel, tokens - first);
    if (count < kPanel) fill(to, to + size * kPanel, 0.0f);
    for (long k = 0; k < size; ++k)
      for (long j = 0; j < count; ++j) to[k * kPanel + j] = load<1>(from + (first + j) * stride + k);
  }
}

// to = scale * from, without what lies behind each row.
template <class T>
void write_row(const float* from, long size, float scale, T* to) {
  each_column(size, [&](auto length, long k) { store<length>(to + k, load<length>(from + k) * scale); });
}

// Replaces the first `valid` scores of a row by exponentials, and those behind, up to `columns`, by 0. `columns` is a
// multiple of 16.
void exponentials(float* scores, long valid, long columns, float* saved) {
  fill(scores + valid, scores + columns, kNoScore);
  Vector<16> largest = load<16>(scores);
  for (long j = 16; j < columns; j += 16) {
    const Vector<16> v = load<16>(scores + j);
    largest = v > largest ? v : largest;
  }
  float maximum = largest[0];
  for (int i = 1; i < 16; ++i) maximum = largest[i] > maximum ? largest[i] : maximum;
  const float sum = sum_of_row(columns, [&](auto length, long j) {
    if constexpr (length == 16) {
      const Vector<16> e = exp_of_negative(load<16>(scores + j) - maximum);
      store<16>(scores + j, e);
      return e;
    } else {
      return 0.0f;
    }
  });
  saved[0] = maximum;
  saved[1] = 1 / sum;
}

// The pieces of the scratch.
struct ForwardScratch {
  float *keys, *values, *queries, *y, *scores;
  ForwardScratch(float* at, long tokens, long size)
      : keys(at),
        values(keys + padded(tokens, kPanel) * size),
        queries(values + tokens * padded(size, 16)),
        y(queries + kQueries * padded(size, 16)),
        scores(y + kQueries * padded(size, 16)) {}
};
struct BackwardScratch {
  float *keys_in_panels, *values_in_panels, *keys, *dkeys, *dvalues, *queries, *dy, *dqueries, *p, *ds, *means;
  BackwardScratch(float* at, long tokens, long size)
      : keys_in_panels(at),
        values_in_panels(keys_in_panels + padded(tokens, kPanel) * size),
        keys(values_in_panels + padded(tokens, kPanel) * size),
        dkeys(keys + tokens * padded(size, 16)),
        dvalues(dkeys + tokens * padded(size, 16)),
        queries(dvalues + tokens * padded(size, 16)),
        dy(queries + kQueries * padded(size, 16)),
        dqueries(dy + kQueries * padded(size, 16)),
        p(dqueries + kQueries * padded(size, 16)),
        ds(p + kQueries * kPanel),
        means(ds + kQueries * kPanel) {}
};

long scratch_floats(long tokens, long size, bool backward) {
  const long panels = padded(tokens, kPanel), row = padded(size, 16);
  const long of_forward = panels * (size + kQueries) + (tokens + 2 * kQueries) * row;
  const long of_backward = 2 * panels * size + 3 * (tokens + kQueries) * row + kQueries * (2 * kPanel + 1);
  return backward && of_backward > of_forward ? of_backward : of_forward;
}

template <class T>
void attention_forward(const AttentionHead& a) {
  const T* const queries = static_cast<const T*>(a.qkv);
  const long stride = 3 * a.width, row = padded(a.size, 16), score_row = padded(a.tokens, kPanel);
  const ForwardScratch at(a.scratch, a.tokens, a.size);
  transpose(queries + a.width, stride, a.tokens, a.size, at.keys);
  copy_rows(queries + 2 * a.width, stride, a.tokens, a.size, 1.0f, at.values);
  const float scale = 1 / __builtin_sqrtf(static_cast<float>(a.size));
  for (long first = 0; first < a.tokens; first += kQueries) {
    const long rows = smaller(kQueries, a.tokens - first), keys = a.causal ? first + rows : a.tokens,
               columns = padded(keys, 16);
    copy_rows(queries + first * stride, stride, rows, a.size, scale, at.queries);
    for (long j = 0; j < columns; j += kPanel)
      multiply({at.queries, row, 1}, at.keys + j * a.size, kPanel, rows, smaller(kPanel, columns - j), a.size,
               at.scores + j, score_row, false);
    for (long i = 0; i < rows; ++i)
      exponentials(at.scores + i * score_row, a.causal ? first + i + 1 : keys, columns, a.saved + 2 * (first + i));
    multiply({at.scores, score_row, 1}, at.values, row, rows, row, keys, at.y, row, false);
    for (long i = 0; i < rows; ++i)
      write_row(at.y + i * row, a.size, a.saved[2 * (first + i) + 1], static_cast<T*>(a.y) + (first + i) * a.width);
  }
}

template <class T>
void attention_backward(const AttentionHead& a) {
  const T* const queries = static_cast<const T*>(a.qkv);
  T* const dqueries = static_cast<T*>(a.dqkv);
  const long stride = 3 * a.width, row = padded(a.size, 16);
  const BackwardScratch at(a.scratch, a.tokens, a.size);
  transpose(queries + a.width, stride, a.tokens, a.size, at.keys_in_panels);
  transpose(queries + 2 * a.width, stride, a.tokens, a.size, at.values_in_panels);
  copy_rows(queries + a.width, stride, a.tokens, a.size, 1.0f, at.keys);
  fill(at.dkeys, at.dkeys + a.tokens * row, 0.0f);
  fill(at.dvalues, at.dvalues + a.tokens * row, 0.0f);
  const float scale = 1 / __builtin_sqrtf(static_cast<float>(a.size));
  for (long first = 0; first < a.tokens; first += kQueries) {
    const long rows = smaller(kQueries, a.tokens - first), keys = a.causal ? first + rows : a.tokens;
    const T* const dy = static_cast<const T*>(a.dy) + first * a.width;
    const T* const y = static_cast<const T*>(a.y) + first * a.width;
    copy_rows(queries + first * stride, stride, rows, a.size, scale, at.queries);
    copy_rows(dy, a.width, rows, a.size, 1.0f, at.dy);
    for (long i = 0; i < rows; ++i)  // the mean of dp under p
      at.means[i] = sum_of_row(a.size, [&](auto length, long k) {
        return load<length>(dy + i * a.width + k) * load<length>(y + i * a.width + k);
      });
    for (long j = 0; j < keys; j += kPanel) {
      const long count = smaller(kPanel, keys - j), columns = padded(count, 16);
      multiply({at.queries, row, 1}, at.keys_in_panels + j * a.size, kPanel, rows, columns, a.size, at.p, kPanel,
               false);
      multiply({at.dy, row, 1}, at.values_in_panels + j * a.size, kPanel, rows, columns, a.size, at.ds, kPanel, false);
      for (long i = 0; i < rows; ++i) {
        const float maximum = a.saved[2 * (first + i)], inverse = a.saved[2 * (first + i) + 1];
        float* const p = at.p + i * kPanel;
        float* const ds = at.ds + i * kPanel;
        if (a.causal && first + i < j + columns - 1)
          fill(p + (first + i < j ? 0 : first + i + 1 - j), p + columns, kNoScore);
        for (long k = 0; k < columns; k += 16) {
          const Vector<16> share = exp_of_negative(load<16>(p + k) - maximum) * inverse;
          store<16>(p + k, share);
          store<16>(ds + k, share * (load<16>(ds + k) - at.means[i]));
        }
      }
      multiply({at.ds, kPanel, 1}, at.keys + j * row, row, rows, row, count, at.dqueries, row, j > 0);
      multiply({at.ds, 1, kPanel}, at.queries, row, count, row, rows, at.dkeys + j * row, row, true);
      multiply({at.p, 1, kPanel}, at.dy, row, count, row, rows, at.dvalues + j * row, row, true);
    }
    for (long i = 0; i < rows; ++i) write_row(at.dqueries + i * row, a.size, scale, dqueries + (first + i) * stride);
  }
  for (long j = 0; j < a.tokens; ++j) {
    write_row(at.dkeys + j * row, a.size, 1.0f, dqueries + j * stride + a.width);
    write_row(at.dvalues + j * row, a.size, 1.0f, dqueries + j * stride + 2 * a.width);
  }
}

template <class T>
constexpr AttentionKernels kAttention = {scratch_floats, attention_forward<T>, attention_backward<T>};

}  // namespace

const AttentionKernels kAttentionF32 = kAttention<float>, kAttentionBf16 = kAttention<uint16_t>;

}  // namespace ddp::DDP_ISA
