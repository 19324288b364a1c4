// Attention as graphs of operations. cuDNN computes each in one kernel (its fused flash attention); it recognizes these
// graphs by their operations and the order of them. This code needs no GPU.
#pragma once

#include "ops/attention.h"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace ddp::cudnn {

enum class GraphType : uint8_t { f32, bf16, i32, boolean };

// Matrices of each sample and head. Neither an operand nor a constant: an intermediate value, without memory.
struct GraphTensor {
  std::array<int64_t, 4> dims = {1, 1, 1, 1}, strides = {1, 1, 1, 1};  // sample, head, row, column; in elements
  GraphType type = GraphType::f32;
  bool is_operand = false;
  std::optional<float> constant = {};

  int64_t bytes() const;  // from the first element to the end of the last one
};

// add to divide: b is repeated where a dimension of it is 1. row, column: the index of each element of a.
// greater_or_equal: a >= b. select: a where `where` holds, else b. max, sum: over the columns of a.
enum class Operator : uint8_t {
  matmul,
  add,
  subtract,
  multiply,
  divide,
  exp,
  log,
  copy,
  row,
  column,
  greater_or_equal,
  select,
  max,
  sum,
  transpose
};

struct Operation {
  Operator op;
  int a, b, where, y;  // indices of tensors; -1: none
};

struct AttentionGraph {
  std::vector<GraphTensor> tensors;
  std::vector<Operation> operations;
  std::vector<int> operands;  // indices of tensors, in the order of the pointers
};

// Activations are bf16, all sums f32. q, k and v start at the query, the key and the value of the first token of qkv.
// lse: of each softmax the logarithm of the sum of the exponentials, f32 of [sample][head][token].

// Operands: q, k, v, y, lse.
AttentionGraph attention_forward_graph(const AttentionDesc& desc, int64_t n);

// Operands: q, k, v, y, lse, dy, dq, dk, dv, scratch of the size of lse. If not `deterministic`, blocks of the kernel
// add dq in any order, in one more operand: scratch of an f32 for each value of q. Else the gradients of the scores are
// stored, in the workspace: 2 n * heads * tokens^2 bytes and more.
AttentionGraph attention_backward_graph(const AttentionDesc& desc, int64_t n, bool deterministic);

}  // namespace ddp::cudnn
