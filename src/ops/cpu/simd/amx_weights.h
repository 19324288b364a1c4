// Weight gradients of convolutions in bf16 on AMX, by the direct algorithm. Output channels are the rows of dy, words
// of adjacent outputs its columns; input channels are the columns of x. All names have internal linkage (kernels.h).
#pragma once

#include "ops/cpu/simd/amx.h"

namespace ddp {
namespace {

template <long Kernel>
struct AmxWeights {
  static constexpr long kProducts = Kernel * Kernel;

  // Writes the words of the windows of Size x Size of adjacent outputs. Words of the last register without an output
  // are 0. Returns the words of a product.
  template <long Size>
  static long weave(const TileTransform& b) {
    const TileImages& from = b.from;
    const long line = from.w * from.channels, words = (b.tiles.count + 1) / 2,
               depth = (words + kSide - 1) / kSide * kSide;
    TilePlace<1> at(b.tiles, 0);
    uint32_t* to = static_cast<uint32_t*>(b.to);
    for (long word = 0; word < words; ++word, to += 16) {
      const uint16_t* windows[2] = {};
      long rows[2] = {}, columns[2] = {};
      bool inside = true;
      for (long i = 0; i < 2 && 2 * word + i < b.tiles.count; ++i, at.next()) {
        rows[i] = at.row * b.stride - b.top;
        columns[i] = at.column * b.stride - b.left;
        windows[i] = static_cast<const uint16_t*>(from.data) + (at.image * from.h + rows[i]) * line +
                     columns[i] * from.channels + b.channel;
        inside &= rows[i] >= 0 && columns[i] >= 0 && rows[i] + Size <= from.h && columns[i] + Size <= from.w;
      }
      inside &= windows[1] != nullptr;
      const auto pixel = [&](long i, long p, long q) {
        const bool there =
            windows[i] && rows[i] + p >= 0 && rows[i] + p < from.h && columns[i] + q >= 0 && columns[i] + q < from.w;
        return there ? NumberBf16::raw(windows[i] + p * line + q * from.channels) : _mm256_setzero_si256();
      };
      for (long p = 0; p < Size; ++p)
        for (long q = 0; q < Size; ++q) {
          const long offset = p * line + q * from.channels;
          uint32_t* const product = to + (p * Size + q) * b.step;
          if (inside)
            NumberBf16::store_words(product, NumberBf16::raw(windows[0] + offset),
                                    NumberBf16::raw(windows[1] + offset));
          else
            NumberBf16::store_words(product, pixel(0, p, q), pixel(1, p, q));
        }
    }
    for (long word = words; word < depth; ++word, to += 16)
      for (long k = 0; k < Size * Size; ++k) _mm512_storeu_si512(to + k * b.step, _mm512_setzero_si512());
    return depth;
  }

  static void transform_inputs(const TileTransform& b) { weave<Kernel>(b); }

  static void transform_gradients(const TileTransform& b) {
    const long depth = weave<1>(b);
    for (long word = 0; word < depth; word += kSide) {
      uint32_t* const block = static_cast<uint32_t*>(b.to) + word * 16;
      transpose_words(block, block, kSide);
    }
  }

  // Registers 0 to 5 are sums of 32 output channels for a row of the kernel, 6 has dy, and 7 has x.
  static void multiply_row(const TileWeightGradient& b, const uint32_t* x, float* to) {
    const long row_bytes = kProducts * b.in * 4;
    float* const lower = to + kSide * kProducts * b.in;
    if (b.add) {
      _tile_loadd(0, to, row_bytes);
      _tile_loadd(1, lower, row_bytes);
      if constexpr (Kernel == 3) {
        _tile_loadd(2, to + b.in, row_bytes);
        _tile_loadd(3, lower + b.in, row_bytes);
        _tile_loadd(4, to + 2 * b.in, row_bytes);
        _tile_loadd(5, lower + 2 * b.in, row_bytes);
      }
    } else {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
      _tile_zero(4);
      _tile_zero(5);
    }
    const uint32_t* dy = static_cast<const uint32_t*>(b.dy);
    const uint32_t* const end = dy + b.depth * 16;
    for (; dy < end; dy += kSide * 16, x += kSide * 16) {
      _tile_loadd(6, dy, 64);
      _tile_loadd(7, x, 64);
      _tile_dpbf16ps(0, 6, 7);
      if constexpr (Kernel == 3) {
        _tile_loadd(7, x + b.step, 64);
        _tile_dpbf16ps(2, 6, 7);
        _tile_loadd(7, x + 2 * b.step, 64);
        _tile_dpbf16ps(4, 6, 7);
        _tile_loadd(6, dy + b.dy_block, 64);
        _tile_dpbf16ps(5, 6, 7);
        _tile_loadd(7, x + b.step, 64);
        _tile_dpbf16ps(3, 6, 7);
        _tile_loadd(7, x, 64);
        _tile_dpbf16ps(1, 6, 7);
      } else {
        _tile_loadd(6, dy + b.dy_block, 64);
        _tile_dpbf16ps(1, 6, 7);
      }
    }
    _tile_stored(0, to, row_bytes);
    _tile_stored(1, lower, row_bytes);
    if constexpr (Kernel == 3) {
      _tile_stored(2, to + b.in, row_bytes);
      _tile_stored(3, lower + b.in, row_bytes);
      _tile_stored(4, to + 2 * b.in, row_bytes);
      _tile_stored(5, lower + 2 * b.in, row_bytes);
    }
  }

  static void weight_gradient(const TileWeightGradient& b) {
    start_tiles();
    for (long half = 0; half < 2; ++half)
      for (long p = 0; p < Kernel; ++p)
        multiply_row(b, static_cast<const uint32_t*>(b.x) + half * b.x_block + p * Kernel * b.step,
                     b.dweight + p * Kernel * b.in + half * 16);
    _tile_release();
  }

  static constexpr WeightKernels kTable = {.tile = 1,
                                           .kernel = Kernel,
                                           .products = kProducts,
                                           .gradient_products = 1,
                                           .pair = 2,
                                           .granule = 2 * kSide,
                                           .slice_bytes = 1 << 20,
                                           .least = 1024,
                                           .outputs = 32,
                                           .transform_inputs = transform_inputs,
                                           .transform_gradients = transform_gradients,
                                           .weight_gradient = weight_gradient};
};

}  // namespace
}  // namespace ddp
