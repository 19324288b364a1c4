// Multi-head self-attention without its projections (Vaswani et al., "Attention is all you need", 2017):
//
//   qkv: {n, tokens, 1, 3 * width}; of each token the query, the key and the value, `width` values each. Head k has the
//   values [k * d, (k + 1) * d) of each, d = width / heads.
//   p_ij = softmax over j of (q_i . k_j / sqrt(d));  y_i = sum over j of p_ij v_j      y: {n, tokens, 1, width}
//
// With `causal`, j runs to i only. The softmax is computed in f32 for each activation type, from values less their
// maximum. Activations are dense.
#pragma once

#include "device/tensor.h"

#include <cstdint>

namespace ddp {

struct AttentionDesc {
  int64_t tokens = 0, width = 0, heads = 1;  // width is a multiple of heads
  bool causal = false;
  bool gradients = true;  // false: backward is never called
};

// A plan; no call allocates. It keeps what backward needs of the last forward besides qkv and y: of each softmax, the
// largest score and the sum. No p_ij is stored.
class Attention {
 public:
  virtual ~Attention() = default;
  virtual void forward(const Tensor& qkv, const Tensor& y) = 0;
  // Overwrites dqkv, which has the layout of qkv.
  virtual void backward(const Tensor& qkv, const Tensor& y, const Tensor& dy, const Tensor& dqkv) = 0;
};

}  // namespace ddp
