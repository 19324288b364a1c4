// The passes of layer norm and group norm (ops/layer_norm.h). Widths are in elements. Do not define inline functions
// here (kernels.h).
#pragma once

namespace ddp {

// Layer norm of x[rows][width]. `saved` has two values for each row: the mean less the first value of the row, which
// keeps the digits of a deviation that is small beside the mean, and 1 / sqrt(var + epsilon).
struct LayerNormForward {
  const void* x;
  void* y;
  long rows, width;
  const float *scale, *shift;
  float epsilon;
  float* saved;
};
struct LayerNormBackward {
  const void *x, *dy;
  void* dx;  // null: only the sums; may be dy
  long rows, width;
  const float* scale;
  const float* saved;
  float *dscale, *dshift;  // the kernel adds to them; null: only dx
};

// Of a group norm: dx = of_dy * dy + of_x * (x - mean) + constant, with a value of each for every column.
struct GroupNormGradient {
  const void *x, *dy;
  void* dx;  // may be dy
  long rows, width;
  const float *mean, *of_dy, *of_x, *constant;
};

struct LayerNormKernels {
  void (*forward)(const LayerNormForward&);
  void (*backward)(const LayerNormBackward&);
  void (*group_gradient)(const GroupNormGradient&);
};

}  // namespace ddp
