// The inner loops over activations, which are f32 or bf16 in memory and f32 in registers. Each table of functions is
// for one of these types. Strides and widths are in elements. Do not define inline functions here (kernels.h).
#pragma once

#include "ops/activation.h"

namespace ddp {

// Batch norm (ops/batch_norm.h) over x[rows][width], with statistics for `width` columns. The kernels add to the sums.
struct NormSum {
  const void* x;
  long rows, width;
  const float* center;
  float *s1, *s2;
};
struct NormForward {
  const void* x;
  const void* skip;  // may be null
  void* y;
  long rows, width;
  const float *mean, *factor, *shift;
  bool relu;
  const Activation* activation;  // another function than a ReLU; null: none
};
struct NormBackwardSum {  // t2 is without the factor 1 / sqrt(var + epsilon)
  const void* x;
  const void* y;     // null: no ReLU
  const void* more;  // may be null
  void* dy;          // written only if y, more or activation is not null
  long rows, width;
  const float *mean, *factor, *shift;  // factor and shift: read with an activation
  const Activation* activation;        // as in NormForward
  float *t1, *t2;
};
// dx = factor * g, with g as in NormBackwardSum. dy gets g if y or more is not null; with an activation if more is not
// null or dx is null.
struct NormScale {
  const void* x;     // read with an activation
  const void* y;     // null: no ReLU
  const void* more;  // may be null
  void* dy;
  void* dx;  // null: dy only
  long rows, width;
  const float *mean, *factor, *shift;  // mean and shift: read with an activation
  const Activation* activation;        // as in NormForward
};
struct NormBackward {
  const void* x;
  const void* dy;
  void* dx;
  long rows, width;
  const float *mean, *inverse_deviation, *factor, *mean_t1, *mean_t2;
};

// y[k] = scale * sum (average) or the largest value (maximum) over `rows` x `columns` positions of x. The average of no
// positions is 0; the maximum needs one.
struct PoolWindow {
  const void* x;
  long row, column;  // strides
  long rows, columns, width;
  float scale;
  void* y;
};
// y[k] = sum of row_weights[p] * column_weights[q] * x at (p, q), over `rows` x `columns` positions of x.
struct PoolWeighted {
  const void* x;
  long row, column;  // strides
  long rows, columns, width;
  const float *row_weights, *column_weights;
  void* y;
};
// dx at each position of a plane [h][w][width] = sum of dy over the windows whose first largest value is there, in the
// order of the windows. y and dy are [out_h][out_w][width].
struct PoolMaximumGradient {
  const void *x, *y, *dy;
  void* dx;
  long h, w, out_h, out_w, width;
  long kernel, stride, top, left;
  float* sums;  // scratch, [kernel][w][16]: zeros before and after
};

// y = x * factor + shift over rows of `width` columns that lie `stride` apart.
struct ScaleForward {
  const void* x;
  void* y;
  long rows, stride, width;
  const float *factor, *shift;
};
// dx = dy * factor; sums += dy * x, or += dy if x is null.
struct ScaleBackward {
  const void* x;
  const void* dy;
  void* dx;  // may be null
  long rows, stride, width;
  const float* factor;
  float* sums;  // may be null
};

struct NormKernels {
  void (*sum)(const NormSum&);
  void (*forward)(const NormForward&);
  void (*backward_sum)(const NormBackwardSum&);
  void (*backward)(const NormBackward&);
  void (*scale)(const NormScale&);
};

extern const NormKernels kNormRounded;  // for activations in bf16 that the processor rounds: needs AVX512_BF16

struct PoolKernels {
  void (*average)(const PoolWindow&);
  void (*weighted)(const PoolWeighted&);
  void (*maximum)(const PoolWindow&);
  void (*maximum_gradient)(const PoolMaximumGradient&);
};

struct ScaleKernels {
  void (*forward)(const ScaleForward&);
  void (*backward)(const ScaleBackward&);
};

// For all formats: these loops do not depend on the order of the elements.
struct ElementwiseKernels {
  void (*relu)(const void* x, void* y, long count);
  void (*relu_backward)(const void* y, const void* dy, void* dx, long count);
  void (*add)(const void* a, const void* b, void* y, long count);
  void (*activation)(const Activation& activation, const void* x, void* y, long count);
  void (*activation_backward)(const Activation& activation, const void* x, const void* dy, void* dx, long count);
};

// The functions of ops/activation.h but `none` and `relu`, and their derivatives, in place. `count` is a multiple
// of 16.
struct ActivationFunctions {
  void (*value)(const Activation& activation, float* x, long count);
  void (*derivative)(const Activation& activation, float* x, long count);
};

}  // namespace ddp
