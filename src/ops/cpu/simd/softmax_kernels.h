// Softmax cross-entropy of the tokens (ops/ops.h). Do not define inline functions here (kernels.h).
#pragma once

namespace ddp {

struct SoftmaxGradient;

// One position. Classes are adjacent.
struct SoftmaxRow {
  const void* logits;
  void* dlogits;  // null: only the sums; may be logits
  long classes, label;
  const SoftmaxGradient& gradient;
};

struct SoftmaxSums {
  float exponentials;  // sum of exp(z - max)
  float below_max;     // sum of z - max
  float label_logit;   // z - max of the label
  bool correct;        // the label's logit is the first of the largest ones
};

struct SoftmaxKernels {
  SoftmaxSums (*row)(const SoftmaxRow&);
};

}  // namespace ddp
