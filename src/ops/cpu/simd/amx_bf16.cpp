// Convolutions in bf16 by the direct algorithm on the tile registers of AMX: a register holds 16 rows of 16 words, and
// one instruction adds the product of two of them to a third. Activations are dense (N,H,W,C), as in oneDNN's kernels
// for AMX.
#include "ops/cpu/simd/bf16.h"
#include "ops/cpu/simd/tiles.h"

namespace ddp {
namespace {

constexpr long kSide = 16;  // rows of a register, and words of a row

// The operand of LDTILECFG (Intel's Architectures Software Developer's Manual, volume 2): 8 registers of 16 rows.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {kSide, kSide, kSide, kSide, kSide, kSide, kSide, kSide};
};
constexpr TileConfig kTileConfig;

// Of 16 x 16 words, in place.
void transpose(uint32_t* words) {
  __m512i r[kSide], t[kSide];
  for (long i = 0; i < kSide; ++i) r[i] = _mm512_loadu_si512(words + i * kSide);
#pragma GCC unroll 8
  for (long i = 0; i < kSide; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (long i = 0; i < kSide; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 4
  for (long j = 0; j < 4; ++j) {
    const __m512i a = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x44), b = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xee),
                  c = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x44),
                  d = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xee);
    _mm512_storeu_si512(words + j * kSide, _mm512_shuffle_i32x4(a, c, 0x88));
    _mm512_storeu_si512(words + (4 + j) * kSide, _mm512_shuffle_i32x4(a, c, 0xdd));
    _mm512_storeu_si512(words + (8 + j) * kSide, _mm512_shuffle_i32x4(b, d, 0x88));
    _mm512_storeu_si512(words + (12 + j) * kSide, _mm512_shuffle_i32x4(b, d, 0xdd));
  }
}

// Outputs and input gradients of 3x3 windows. Rows of the left factor are outputs, columns of the right one channels.
struct AmxOutputs {
  static long packed_step(long channels) { return channels / 2 * kTileOutputs + kTilePadding; }

  static void pack(const WinogradWeights& w) {
    alignas(64) uint32_t words[kSide * kSide];  // output channels are rows, then columns
    for (long half = 0; half < kTileOutputs; half += kSide)
      for (long c = 0; c < w.count; c += 2 * kSide)
        for (long tap = 0; tap < 9; ++tap) {
          for (long o = 0; o < kSide; ++o) {
            const float* const from = w.dense + ((w.o + half + o) * 9 + tap) * w.in + w.first + c;
            const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + 16), _mm512_loadu_ps(from));
            _mm512_store_si512(words + o * kSide, reinterpret_cast<__m512i>(both));
          }
          transpose(words);
          uint32_t* const to = packed(w, tap) + c / 2 * kTileOutputs + half;
          for (long i = 0; i < kSide; ++i)
            _mm512_storeu_si512(to + i * kTileOutputs, _mm512_load_si512(words + i * kSide));
        }
  }

  // The kernel is rotated by 180 degrees.
  static void pack_transposed(const WinogradWeights& w) {
    for (long tap = 0; tap < 9; ++tap)
      for (long c = 0; c < w.count; c += 2)
        for (long half = 0; half < kTileOutputs; half += kSide) {
          const float* const from = w.dense + ((w.first + c) * 9 + 8 - tap) * w.out + w.o + half;
          NumberBf16::store_words(packed(w, tap) + c / 2 * kTileOutputs + half, _mm512_loadu_ps(from),
                                  _mm512_loadu_ps(from + 9 * w.out));
        }
  }

  static uint32_t* packed(const WinogradWeights& w, long tap) {
    return static_cast<uint32_t*>(w.packed) + tap * packed_step(w.count);
  }

  // Copies the 9 pixels of each output.
  static void transform_inputs(const WinogradBlock& b) {
    const long words = b.x.channels / 2;
    TilePlace<1> at(b.tiles, 0);
    for (long t = 0; t < b.tiles.count; ++t, at.next())
      for (long tap = 0; tap < 9; ++tap) {
        const long row = at.row - b.top + tap / 3, column = at.column - b.left + tap % 3;
        const bool there = row >= 0 && row < b.x.h && column >= 0 && column < b.x.w;
        const uint32_t* const from =
            static_cast<const uint32_t*>(b.x.data) + ((at.image * b.x.h + row) * b.x.w + column) * words;
        uint32_t* const to = static_cast<uint32_t*>(b.transformed) + tap * b.transformed_step + t * words;
        for (long c = 0; c < words; c += kSide)
          _mm512_storeu_si512(to + c, there ? _mm512_loadu_si512(from + c) : _mm512_setzero_si512());
      }
  }

  // Registers 0 to 3 are sums of 32 outputs and 32 channels, 4 and 5 have inputs, and 6 and 7 weights. Rows behind the
  // last tile are computed from what the scratch has there, and not read.
  static void multiply(const WinogradBlock& b, const void* weights, long first, long channels) {
    constexpr long kProductRow = kTileOutputs * 4, kWeightRow = kTileOutputs * 4;  // bytes
    const long depth = channels / 2, row = b.x.channels / 2;
    _tile_loadconfig(&kTileConfig);
    for (long t = 0; t < b.tiles.count; t += 2 * kSide) {
      float* const upper = b.products + t * kTileOutputs;
      float* const lower = upper + kSide * kTileOutputs;
      if (first > 0) {
        _tile_loadd(0, upper, kProductRow);
        _tile_loadd(1, upper + kSide, kProductRow);
        _tile_loadd(2, lower, kProductRow);
        _tile_loadd(3, lower + kSide, kProductRow);
      } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
      }
      for (long tap = 0; tap < 9; ++tap) {
        const uint32_t* u = static_cast<const uint32_t*>(weights) + tap * packed_step(channels);
        const uint32_t* v =
            static_cast<const uint32_t*>(b.transformed) + tap * b.transformed_step + t * row + first / 2;
        for (long c = 0; c < depth; c += kSide, v += kSide, u += kSide * kTileOutputs) {
          _tile_loadd(4, v, row * 4);
          _tile_loadd(6, u, kWeightRow);
          _tile_dpbf16ps(0, 4, 6);
          _tile_loadd(7, u + kSide, kWeightRow);
          _tile_dpbf16ps(1, 4, 7);
          _tile_loadd(5, v + kSide * row, row * 4);
          _tile_dpbf16ps(2, 5, 6);
          _tile_dpbf16ps(3, 5, 7);
        }
      }
      _tile_stored(0, upper, kProductRow);
      _tile_stored(1, upper + kSide, kProductRow);
      _tile_stored(2, lower, kProductRow);
      _tile_stored(3, lower + kSide, kProductRow);
    }
    _tile_release();
  }

  static void write_outputs(const WinogradBlock& b, long o) {
    const __m512 least = _mm512_set1_ps(b.relu ? 0.0f : -__builtin_inff());
    TilePlace<1> at(b.tiles, 0);
    for (long t = 0; t < b.tiles.count; ++t, at.next()) {
      uint16_t* const y =
          static_cast<uint16_t*>(b.y) + ((at.image * b.out_h + at.row) * b.out_w + at.column) * b.out + o;
      for (long half = 0; half < kTileOutputs; half += 16) {
        const __m512 bias = b.bias ? _mm512_loadu_ps(b.bias + o + half) : _mm512_setzero_ps();
        const __m512 sum = _mm512_loadu_ps(b.products + t * kTileOutputs + half);
        NumberBf16::store(y + half, _mm512_max_ps(least, sum + bias));  // this order of operands keeps NaN
      }
    }
  }
};

// Weight gradients. Output channels are the rows of dy, words of adjacent outputs its columns; input channels are the
// columns of x.
template <long Kernel>
struct AmxWeights {
  static constexpr long kProducts = Kernel * Kernel;

  // Writes the words of the windows of Size x Size of adjacent outputs. Those of the last register that no output has
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
    for (long word = 0; word < depth; word += kSide) transpose(static_cast<uint32_t*>(b.to) + word * 16);
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
    _tile_loadconfig(&kTileConfig);
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

const WeightKernels kAmxWeights1 = AmxWeights<1>::kTable;
const WeightKernels kAmxWeights3 = AmxWeights<3>::kTable;
const WinogradKernels kAmx3 = {.tile = 1,
                               .products = 9,
                               .pair = 2,
                               .pack = AmxOutputs::pack,
                               .pack_transposed = AmxOutputs::pack_transposed,
                               .transform_inputs = AmxOutputs::transform_inputs,
                               .multiply = AmxOutputs::multiply,
                               .write_outputs = AmxOutputs::write_outputs,
                               .weights = AmxWeights<3>::kTable};

}  // namespace ddp
