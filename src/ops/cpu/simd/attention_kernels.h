// Attention of one head in one sample (ops/attention.h). Do not define inline functions here (kernels.h).
#pragma once

namespace ddp {

// The rows of qkv and dqkv are 3 * width elements apart, those of y and dy `width`. All point to the values of the head
// in the first token: those of its query; its key lies `width` elements behind, its value 2 * width.
struct AttentionHead {
  const void* qkv;
  void* y;                   // backward only reads it
  const void* dy;            // backward
  void* dqkv;                // backward
  long tokens, size, width;  // size: values of a query
  bool causal;
  float* saved;  // of each token: the largest score, and 1 / (sum of the exponentials)
  float* scratch;
};

struct AttentionKernels {
  long (*scratch)(long tokens, long size, bool backward);  // floats
  void (*forward)(const AttentionHead&);
  void (*backward)(const AttentionHead&);
};

}  // namespace ddp
