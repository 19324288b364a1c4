#include "ops/cuda/attention_graph.h"

#include <cmath>
#include <limits>
#include <utility>

namespace ddp::cudnn {
namespace {

using Dims4 = std::array<int64_t, 4>;

Dims4 dense_strides(const Dims4& dims) { return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1}; }

class GraphBuilder {
 public:
  explicit GraphBuilder(const AttentionDesc& desc, int64_t n)
      : desc_(desc), n_(n), size_(desc.width / desc.heads), scale_(1 / std::sqrt(static_cast<float>(size_))) {}

  // `parts`: 3 for a part of qkv, 1 for y.
  int activations(int64_t parts) {
    const int64_t token = parts * desc_.width;
    return operand({n_, desc_.heads, desc_.tokens, size_}, {desc_.tokens * token, size_, token, 1}, GraphType::bf16);
  }
  int transposed_activations() {
    const int t = activations(3);
    swap_rows(graph_.tensors[t]);
    return t;
  }
  int row_values() {
    const Dims4 dims{n_, desc_.heads, desc_.tokens, 1};
    return operand(dims, dense_strides(dims), GraphType::f32);
  }
  int query_sums() {
    const Dims4 dims{n_, desc_.heads, desc_.tokens, size_};
    return operand(dims, dense_strides(dims), GraphType::f32);
  }
  int constant(float value) { return add({.constant = value}); }
  int scale() { return constant(scale_); }

  // Into a new intermediate value.
  int apply(Operator op, int a, int b = -1, GraphType type = GraphType::f32, int where = -1) {
    Dims4 dims = graph_.tensors[a].dims;
    if (op == Operator::matmul) dims[3] = graph_.tensors[b].dims[3];
    if (op == Operator::max || op == Operator::sum) dims[3] = 1;
    return to(add({dims, dense_strides(dims), type}), op, a, b, where);
  }
  int to(int y, Operator op, int a, int b = -1, int where = -1) {
    graph_.operations.push_back({op, a, b, where, y});
    return y;
  }
  int transpose(int a) {
    GraphTensor t = graph_.tensors[a];
    t.is_operand = false;
    t.type = GraphType::bf16;
    swap_rows(t);
    return to(add(std::move(t)), Operator::transpose, a);
  }
  // -infinity in place of the scores of later tokens.
  int masked(int scores) {
    if (!desc_.causal) return scores;
    const int query = apply(Operator::row, scores, -1, GraphType::i32);
    const int key = apply(Operator::column, scores, -1, GraphType::i32);
    const int seen = apply(Operator::greater_or_equal, query, key, GraphType::boolean);
    const int hidden = constant(-std::numeric_limits<float>::infinity());
    return apply(Operator::select, scores, hidden, GraphType::f32, seen);
  }

  AttentionGraph take() { return std::move(graph_); }

 private:
  int add(GraphTensor tensor) {
    graph_.tensors.push_back(std::move(tensor));
    return static_cast<int>(graph_.tensors.size()) - 1;
  }
  int operand(const Dims4& dims, const Dims4& strides, GraphType type) {
    graph_.operands.push_back(add({dims, strides, type, true}));
    return graph_.operands.back();
  }
  static void swap_rows(GraphTensor& t) {
    std::swap(t.dims[2], t.dims[3]);
    std::swap(t.strides[2], t.strides[3]);
  }

  AttentionDesc desc_;
  int64_t n_, size_;
  float scale_;
  AttentionGraph graph_;
};

}  // namespace

int64_t GraphTensor::bytes() const {
  int64_t last = 0;
  for (int i = 0; i < 4; ++i) last += (dims[i] - 1) * strides[i];
  return (last + 1) * (type == GraphType::bf16 ? 2 : 4);
}

AttentionGraph attention_forward_graph(const AttentionDesc& desc, int64_t n) {
  using enum Operator;
  GraphBuilder g(desc, n);
  const int q = g.activations(3), k = g.transposed_activations(), v = g.activations(3), y = g.activations(1);
  const int lse = g.row_values();
  const int scores = g.masked(g.apply(multiply, g.apply(matmul, q, k), g.scale()));
  const int maximum = g.apply(max, scores);
  const int exponentials = g.apply(exp, g.apply(subtract, scores, maximum));
  const int total = g.apply(sum, exponentials);
  g.to(lse, add, maximum, g.apply(log, total));
  g.to(y, matmul, g.apply(divide, exponentials, total, GraphType::bf16), v);
  return g.take();
}

AttentionGraph attention_backward_graph(const AttentionDesc& desc, int64_t n, bool deterministic) {
  using enum Operator;
  GraphBuilder g(desc, n);
  const int q = g.activations(3), k = g.transposed_activations(), v = g.transposed_activations();
  const int y = g.activations(1), lse = g.row_values(), dy = g.activations(1);
  const int dq = g.activations(3), dk = g.activations(3), dv = g.activations(3), means = g.row_values();
  g.to(means, multiply, g.apply(sum, g.apply(multiply, dy, y)), g.constant(1));
  const int scale = g.scale();
  const int p = g.apply(exp, g.masked(g.apply(subtract, g.apply(multiply, g.apply(matmul, q, k), scale), lse)));
  g.to(dv, matmul, g.transpose(p), dy);
  const int dp = g.apply(subtract, g.apply(matmul, dy, v), means);
  const int ds = g.apply(multiply, g.apply(multiply, dp, p), scale, GraphType::bf16);
  g.to(dk, matmul, g.transpose(ds), q);
  const int keys = g.transpose(k);
  if (deterministic)
    g.to(dq, matmul, ds, keys);
  else
    g.to(dq, copy, g.to(g.query_sums(), matmul, ds, keys));
  return g.take();
}

}  // namespace ddp::cudnn
