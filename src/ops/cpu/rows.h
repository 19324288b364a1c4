// A view of an activation of any format as a matrix: rows of `width` columns, where each column belongs to one channel.
// The rows are split into items for threads. The split depends on shapes only, so partial sums of items, added in the
// order of items, have the same bits for any number of threads.
#pragma once

#include "core/shape.h"
#include "device/format.h"
#include "ops/cpu/layout.h"

#include <algorithm>
#include <cstdint>

namespace ddp {

// dense              one row has c channels
// batch_interleaved  one row has c * lanes values; the rows of a partly filled last block of samples are in separate
//                    items, which are `ragged`
// blocked_channels   one row has one block of channels; rows of block b start at column b * width
class Rows {
 public:
  Rows(const ImageShape& image, Format format)
      : format_(format),
        positions_(image.h * image.w),
        blocks_(format.kind == Format::Kind::blocked_channels ? ceil_div(image.c, format.block) : 1),
        width_(format.kind == Format::Kind::blocked_channels    ? format.block
               : format.kind == Format::Kind::batch_interleaved ? image.c * format.block
                                                                : image.c),
        max_rows_(std::max<int64_t>(1, kItem / width_)) {}

  int64_t width() const { return width_; }
  int64_t columns() const { return blocks_ * width_; }  // in all blocks
  int64_t lanes() const { return format_.kind == Format::Kind::batch_interleaved ? format_.block : 1; }

  int64_t items(int64_t n) const {
    if (format_.kind == Format::Kind::blocked_channels)
      return positions_ * blocks_ > max_rows_ ? n * pieces_per_sample() : ceil_div(n, samples_per_item());
    return ceil_div(whole_rows(n), max_rows_) + (ragged_lanes(n) > 0 ? ceil_div(positions_, max_rows_) : 0);
  }

  bool ragged(int64_t item, int64_t n) const {
    return format_.kind == Format::Kind::batch_interleaved && item >= ceil_div(whole_rows(n), max_rows_);
  }
  int64_t ragged_lanes(int64_t n) const { return n % lanes(); }

  // Calls run(offset of the first element, rows, first column) for each contiguous run of rows of an item.
  template <class F>
  void each_run(int64_t item, int64_t n, F&& run) const {
    if (format_.kind != Format::Kind::blocked_channels) {
      const bool last = ragged(item, n);
      const int64_t base = last ? whole_rows(n) : 0, rows = last ? positions_ : whole_rows(n);
      const int64_t first = (last ? item - ceil_div(whole_rows(n), max_rows_) : item) * max_rows_;
      run((base + first) * width_, std::min(max_rows_, rows - first), 0);
      return;
    }
    const bool split = positions_ * blocks_ > max_rows_;
    const int64_t first = split ? item / pieces_per_sample() : item * samples_per_item();
    const int64_t end = split ? first + 1 : std::min(n, first + samples_per_item());
    const int64_t piece = split ? ceil_div(positions_, pieces_per_sample()) : positions_;
    const int64_t row = split ? item % pieces_per_sample() * piece : 0, rows = std::min(piece, positions_ - row);
    for (int64_t i = first; i < end && rows > 0; ++i)
      for (int64_t b = 0; b < blocks_; ++b) run(((i * blocks_ + b) * positions_ + row) * width_, rows, b * width_);
  }

 private:
  static constexpr int64_t kItem = 64 * 1024;  // elements of an item, for some tens of microseconds of work

  int64_t whole_rows(int64_t n) const { return n / lanes() * positions_; }
  int64_t samples_per_item() const { return std::max<int64_t>(1, max_rows_ / (positions_ * blocks_)); }
  int64_t pieces_per_sample() const { return std::min(positions_, ceil_div(positions_ * blocks_, max_rows_)); }

  Format format_;
  int64_t positions_, blocks_, width_;
  int64_t max_rows_;  // rows of an item at most
};

}  // namespace ddp
