// The inner loops over activations in lanes (device/format.h), compiled once for each instruction set. All strides are
// in floats. This header is read by files compiled with wider instruction sets: keep inline functions out of it.
#pragma once

namespace ddp {

// Output channels, or rows of a matrix, that a kernel computes together.
inline constexpr int kTile = 5;

// For each of `pixels` positions and `rows` <= kTile rows:
//   y[pixel][row][lane] = act(bias[row] + sum over segment, k of w[segment][k][row] * x[pixel][segment][k][lane])
// or, with `add`, is increased by it. `w` holds kTile weights for each k, zeros past `rows`.
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

// dw[out][tap] = sum over row, column, lane of dy[row][column][out] * x[row][column][tap], for `outs` <= kTile and
// `taps` <= max_taps; with `add`, is increased by it.
struct LaneWeightGradient {
  const float* x;
  long x_row, x_column, x_tap;
  const float* dy;  // [row][column][out][lane]
  long dy_row, dy_column;
  long rows, columns;
  int outs, taps;
  float* dw;
  long dw_out, dw_tap;
  bool add;
};

// db[out] = sum over pixel, lane of dy[pixel][out]; before that, where `y` is given, dy *= (y > 0) in place.
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
};

// 16 where the processor has AVX-512, else 8.
int widest_lanes();
// The fastest kernels of this processor for 8 or 16 lanes.
const LaneKernels& lane_kernels(int lanes);

}  // namespace ddp
