// The inner loops over batch-interleaved activations (device/format.h). Strides are in floats. Do not define inline
// functions here (kernels.h).
#pragma once

namespace ddp {

// Number of output channels or matrix rows that a kernel computes together.
inline constexpr int kTile = 5;

// For each of `pixels` positions and `rows` <= kTile rows:
//   y[pixel][row][lane] = act(bias[row] + sum over segment, k of w[segment][k][row] * x[pixel][segment][k][lane])
// With `add`, the sum also contains the old y. `w` holds kTile weights for each k, with zeros past `rows`.
struct LaneSum {
  const float* x;
  long x_pixel, x_segment, x_step;
  const float* w;
  long w_segment;
  long segments, count, pixels;
  float* y;
  long y_pixel, y_row;
  int rows;
  const float* bias;  // may be null
  bool relu, add;
};

// sums[out][tap][lane] += sum over row, column of dy[row][column][out][lane] * x[row][column][tap][lane]
// for `outs` <= kTile outputs and `taps` <= max_taps taps.
struct LaneWeightGradient {
  const float* x;
  long x_row, x_column;  // taps are contiguous
  const float* dy;       // [row][column][out][lane]
  long dy_row, dy_column;
  long rows, columns;
  int outs, taps;
  float* sums;
  long sums_out;  // taps are contiguous
};

// First dy becomes the gradient in front of the ReLU, in place, if `y` is not null. Then db[out] = sum over pixel, lane
// of dy[pixel][out][lane], or, with `add`, db[out] += this sum.
struct LaneBiasGradient {
  const float* y;  // may be null
  float* dy;
  long pixels, pixel;
  int outs;
  float* db;
  bool add;
};

struct LaneKernels {
  int max_taps;
  void (*sum)(const LaneSum&);
  void (*weight_gradient)(const LaneWeightGradient&);
  void (*bias_gradient)(const LaneBiasGradient&);
  // out[i] = sum over the lanes of sums[i]; with `add`, out[i] += this sum.
  void (*sum_lanes)(const float* sums, long count, float* out, bool add);
};

}  // namespace ddp
