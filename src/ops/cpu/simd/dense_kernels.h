// The inner loops of dense convolutions, for activations of one type in memory. Vectors run over channels, which are
// contiguous. Strides are in elements, positions in pixels of a row. Do not define inline functions here (kernels.h).
#pragma once

namespace ddp {

// A row of outputs of a depthwise convolution:
//   y[m][c] = act(bias[c] + sum over p, q of w[p][q][c] * x[p][first + m*step + q*tap][c])
// x has `rows` rows of `width` pixels; pixels outside [0, width) count as 0.
struct DepthwiseRow {
  const void* x;  // pixel 0 of the first row
  long x_row, width;
  const void* next;  // pixel 0 of the first of `step` adjacent rows to prefetch; null: none
  long first, step, tap;
  const float* w;
  long w_row, w_tap;  // may be negative
  long rows, taps, channels;
  void* y;
  long y_pixel;
  long columns;
  const float* bias;  // may be null
  bool relu;
};

// For a window of taps x taps:
//   sums[p][q][c] += sum over i, m of dy[i][m][c] * x[top + i*step + p*tap][first + m*step + q*tap][c]
// x is an image; rows outside [0, height) and pixels outside [0, width) count as 0.
struct DepthwiseWeightGradient {
  const void* x;
  long height, width, channels;
  long top, first, step, tap;
  long taps;
  const void* dy;  // [row][column][channel]
  long rows, columns;
  float* sums;
};

// First dy[row][width] becomes the gradient in front of the ReLU, in place, if `y` is not null. Then, if `sums` is not
// null, sums[k] += sum over the rows of dy[row][k].
struct ColumnGradient {
  const void* y;  // may be null
  void* dy;
  long rows, width;
  float* sums;  // may be null
};

struct DenseKernels {
  void (*depthwise_row)(const DepthwiseRow&);
  void (*depthwise_weight_gradient)(const DepthwiseWeightGradient&);
  // y[row][k] = act(y[row][k] + bias[k]), where rows are `stride` elements apart; `bias` may be null
  void (*add_bias)(void* y, long rows, long width, long stride, const float* bias, bool relu);
  void (*column_gradient)(const ColumnGradient&);
};

}  // namespace ddp
