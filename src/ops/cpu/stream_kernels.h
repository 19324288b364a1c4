// The inner loops that read activations or flat buffers once, compiled for each instruction set. Activations are f32 or
// bf16 in memory and f32 in registers; each table of functions is for one of these types. Strides and widths are in
// elements. Files for different instruction sets include this header: do not define inline functions in it.
#pragma once

#include "core/dtype.h"
#include "ops/functors.h"

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
};
struct NormBackwardSum {  // t2 is without the factor 1 / sqrt(var + epsilon)
  const void* x;
  const void* y;     // null: no ReLU
  const void* more;  // may be null
  void* dy;          // written only if y or more is not null
  long rows, width;
  const float* mean;
  float *t1, *t2;
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
// dx[k] at position (h, w) of the plane x[..][row_of_x][width] = sum of dy over the windows whose first largest value
// is at (h, w). The windows that contain (h, w) are rows i0 to i1 - 1, columns j0 to j1 - 1 of y[..][row_of_y][width].
struct PoolMaximumGradient {
  const void *x, *y, *dy;
  void* dx;
  long h, w, i0, i1, j0, j1;
  long kernel, stride, top, left;
  long row_of_x, row_of_y, width;
};

struct ActivationKernels {
  void (*norm_sum)(const NormSum&);
  void (*norm_forward)(const NormForward&);
  void (*norm_backward_sum)(const NormBackwardSum&);
  void (*norm_backward)(const NormBackward&);
  void (*pool_average)(const PoolWindow&);
  void (*pool_maximum)(const PoolWindow&);
  void (*pool_maximum_gradient)(const PoolMaximumGradient&);
  void (*relu)(const void* x, void* y, long count);
  void (*relu_backward)(const void* y, const void* dy, void* dx, long count);
  void (*add)(const void* a, const void* b, void* y, long count);
};

struct FloatKernels {
  void (*add)(const float* from, float* to, long count);
  void (*to_bf16)(const float* from, void* to, long count);
  void (*from_bf16)(const void* from, float* to, long count);
  double (*sum_of_squares)(const float* values, long count);
  bool (*any_nonfinite)(const float* values, long count);
};

struct StreamKernels {
  ActivationKernels f32, bf16;
  FloatKernels floats;
};

// The fastest version for this processor.
const StreamKernels& stream_kernels();
const ActivationKernels& activation_kernels(DType type);

}  // namespace ddp
