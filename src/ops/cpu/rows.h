// A view of an activation of any format as a matrix: rows of `width` columns, where each column belongs to one channel.
// The rows are split into items for threads. Each item adds its partial sums to a slot; items that share a slot have
// other columns. The split depends on shapes only, so the slots, added in order, have the same bits for any number of
// threads.
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
// blocked_channels   one row has one block of channels; rows of block b start at column b * width. A plane is the rows
//                    of a block of a sample. An item has the planes of whole samples, adjacent planes of one sample, or
//                    a part of one plane.
class Rows {
 public:
  Rows(const ImageShape& image, Format format)
      : format_(format),
        positions_(image.h * image.w),
        blocks_(format.kind == Format::Kind::blocked_channels ? ceil_div(image.c, format.block) : 1),
        width_(format.kind == Format::Kind::blocked_channels    ? format.block
               : format.kind == Format::Kind::batch_interleaved ? image.c * format.block
                                                                : image.c),
        max_rows_(std::max<int64_t>(1, kItem / width_)),
        planes_(std::max<int64_t>(1, max_rows_ / positions_)) {}

  int64_t width() const { return width_; }
  int64_t columns() const { return blocks_ * width_; }  // in all blocks
  int64_t lanes() const { return format_.kind == Format::Kind::batch_interleaved ? format_.block : 1; }

  int64_t items(int64_t n) const { return slots(n) * (blocked() ? items_per_sample() : 1); }

  int64_t slots(int64_t n) const {
    if (blocked()) return ceil_div(n, samples_per_item()) * parts_of_plane();
    return ceil_div(whole_rows(n), max_rows_) + (ragged_lanes(n) > 0 ? ceil_div(positions_, max_rows_) : 0);
  }
  int64_t slot(int64_t item) const {
    return blocked() ? group(item) * parts_of_plane() + item % parts_of_plane() : item;
  }
  Interval columns_of(int64_t item) const {
    const Interval blocks = blocks_of(item);
    return {blocks.first * width_, blocks.end * width_};
  }

  // Of a slot, or of an item: formats with ragged rows have one item in each slot.
  bool ragged(int64_t slot, int64_t n) const {
    return format_.kind == Format::Kind::batch_interleaved && slot >= ceil_div(whole_rows(n), max_rows_);
  }
  int64_t ragged_lanes(int64_t n) const { return n % lanes(); }

  // Calls run(offset of the first element, rows, first column) for each contiguous run of rows of an item.
  template <class F>
  void each_run(int64_t item, int64_t n, F&& run) const {
    if (!blocked()) {
      const bool last = ragged(item, n);
      const int64_t base = last ? whole_rows(n) : 0, rows = last ? positions_ : whole_rows(n);
      const int64_t first = (last ? item - ceil_div(whole_rows(n), max_rows_) : item) * max_rows_;
      run((base + first) * width_, std::min(max_rows_, rows - first), 0);
      return;
    }
    const int64_t first = group(item) * samples_per_item(), part = ceil_div(positions_, parts_of_plane());
    const int64_t row = item % parts_of_plane() * part, rows = std::min(part, positions_ - row);
    const Interval blocks = blocks_of(item);
    for (int64_t i = first; i < std::min(n, first + samples_per_item()) && rows > 0; ++i)
      for (int64_t b = blocks.first; b < blocks.end; ++b)
        run(((i * blocks_ + b) * positions_ + row) * width_, rows, b * width_);
  }

 private:
  static constexpr int64_t kItem = 64 * 1024;  // elements of an item, for some tens of microseconds of work

  bool blocked() const { return format_.kind == Format::Kind::blocked_channels; }
  int64_t whole_rows(int64_t n) const { return n / lanes() * positions_; }
  int64_t samples_per_item() const { return std::max<int64_t>(1, planes_ / blocks_); }
  int64_t items_per_sample() const { return ceil_div(blocks_, planes_); }  // or per part of its planes
  int64_t parts_of_plane() const { return ceil_div(positions_, max_rows_); }
  int64_t group(int64_t item) const { return item / parts_of_plane() / items_per_sample(); }  // of samples
  Interval blocks_of(int64_t item) const {
    if (!blocked()) return {0, 1};
    const int64_t first = item / parts_of_plane() % items_per_sample() * planes_;
    return {first, std::min(blocks_, first + planes_)};
  }

  Format format_;
  int64_t positions_, blocks_, width_;
  int64_t max_rows_, planes_;  // rows, or blocks of channels, of an item at most
};

}  // namespace ddp
