// Resizes a picture, row by row as it is decoded. The arithmetic is that of Pillow's Image.resize
// (src/libImaging/Resample.c and ImagingScaleAffine in Geometry.c), so the results are equal: weights in fixed point
// with 22 bits, first along the rows, then along the columns, with a rounding to uint8 between the two. All arithmetic
// on pixels is on integers, so each instruction set gives the same bits.
#pragma once

#include "data/geometry.h"
#include "data/resize_kernels.h"

#include <cstdint>
#include <vector>

namespace ddp {

// One direction. [begin, end) of the `input` pixels becomes `output` pixels, of which [first, first + count) are
// wanted.
struct ResizeAxis {
  int64_t input = 0;
  double begin = 0, end = 0;  // 0 <= begin < end <= input; pixel i covers [i, i + 1)
  int64_t output = 0;
  int64_t first = 0, count = 0;  // 0 <= first, 1 <= count, first + count <= output
};

// The weights of one direction.
struct ResizeWeights {
  std::vector<ResizeTaps> taps;  // one for each wanted output
  std::vector<int32_t> values;
  int64_t first = 0, count = 0;  // input pixels that have weights; taps count from `first`
  int64_t span = 0;              // most pixels from the first of an output to the last of it and of those before it

  // Each weight stands `copies` times in a row.
  void plan(const ResizeAxis& axis, Interpolation interpolation, int copies);
};

// Keeps its memory from picture to picture.
class Resize {
 public:
  // `channels`: 1 or 3, of the result. The rows that are put have 1 byte a pixel; or 4, the last of which is unused.
  explicit Resize(const ResizeKernels& kernels = best_resize_kernels()) : kernels_(kernels) {}

  // Starts a picture. Returns the box of input pixels that the result needs.
  Box begin(const ResizeAxis& x, const ResizeAxis& y, Interpolation interpolation, int channels);

  // The next `count` rows of that box, from the top; row i is at rows + i * stride. kResizePadding bytes behind each
  // row are read, and without influence. Writes the rows of the result that are complete to `to`: row j at to + j *
  // to_stride.
  void put(const uint8_t* rows, int64_t stride, int64_t count, uint8_t* to, int64_t to_stride);

 private:
  uint8_t* kept(int64_t row) { return ring_.data() + row % ring_rows_ * ring_stride_; }

  const ResizeKernels& kernels_;
  ResizeWeights x_, y_;
  int channels_ = 3;
  // The last rows after the first pass: row i of the box is in place i mod ring_rows_.
  std::vector<uint8_t> ring_;
  int64_t ring_rows_ = 0, ring_stride_ = 0;
  int64_t rows_in_ = 0, rows_out_ = 0;
  std::vector<const uint8_t*> column_;
};

}  // namespace ddp
