// Compiled for each instruction set, into the namespace DDP_ISA. Nothing here has external linkage but the table, so
// the linker cannot take a function of one set for another.
#include "data/resize_kernels.h"

#include <cstring>

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace ddp::DDP_ISA {
namespace {

typedef int32_t Lanes __attribute__((vector_size(32)));
typedef int32_t Quarter __attribute__((vector_size(16)));  // the 4 bytes of a pixel

constexpr int32_t kHalf = 1 << (kResizeBits - 1);

template <class T>
inline T load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

inline uint8_t byte_of(int32_t sum) {
  const int32_t value = sum >> kResizeBits;
  return static_cast<uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
}

// 8 bytes to 8 numbers; sums to bytes, limited to 0 ... 255. GCC 12 takes dozens of instructions for the generic form.
#ifdef __AVX2__
inline Lanes widen(const uint8_t* from) {
  return reinterpret_cast<Lanes>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}
inline void store_pixel(Quarter sum, uint8_t* to) {
  const auto value = reinterpret_cast<__m128i>(sum >> kResizeBits);
  const __m128i words = _mm_packus_epi32(value, value);
  _mm_storeu_si32(to, _mm_packus_epi16(words, words));
}
inline void store_block(const Lanes* sum, uint8_t* to) {
  const auto value = [&](int i) { return reinterpret_cast<__m256i>(sum[i] >> kResizeBits); };
  const __m256i bytes =
      _mm256_packus_epi16(_mm256_packus_epi32(value(0), value(1)), _mm256_packus_epi32(value(2), value(3)));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permutevar8x32_epi32(bytes, order));
}
#else
inline Lanes widen(const uint8_t* p) { return Lanes{p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]}; }
inline void store_pixel(Quarter sum, uint8_t* to) {
  for (int i = 0; i < 4; ++i) to[i] = byte_of(sum[i]);
}
inline void store_block(const Lanes* sum, uint8_t* to) {
  for (int i = 0; i < 32; ++i) to[i] = byte_of(sum[i / 8][i % 8]);
}
#endif

void grey(const ResizeTaps* taps, const int32_t* weights, int64_t outputs, const uint8_t* from, int64_t stride,
          int64_t rows, uint8_t* const* to) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t x = 0; x < outputs; ++x) {
      const uint8_t* in = from + r * stride + taps[x].start;
      const int32_t* w = weights + taps[x].weights;
      int32_t sum = kHalf;
      for (int64_t t = 0; t < taps[x].count; t += 4)
        sum += in[t] * w[t] + in[t + 1] * w[t + 1] + in[t + 2] * w[t + 2] + in[t + 3] * w[t + 3];
      to[r][x] = byte_of(sum);
    }
}

// Two pixels to a vector. The halves of the sum are the sums of the even and of the odd pixels.
void colour(const ResizeTaps* taps, const int32_t* weights, int64_t outputs, const uint8_t* from, int64_t stride,
            int64_t rows, uint8_t* const* to) {
  for (int64_t x = 0; x < outputs; ++x) {
    const uint8_t* in = from + 4 * taps[x].start;
    const int32_t* w = weights + taps[x].weights;
    const Lanes w0 = load<Lanes>(w), w1 = load<Lanes>(w + 8);
    const int64_t count = taps[x].count;
    for (int64_t r = 0; r < rows; ++r, in += stride) {
      Lanes sum = widen(in) * w0 + widen(in + 8) * w1;
      for (int64_t t = 4; t < count; t += 4)
        sum += widen(in + 4 * t) * load<Lanes>(w + 4 * t) + widen(in + 4 * t + 8) * load<Lanes>(w + 4 * t + 8);
      const Quarter even = __builtin_shufflevector(sum, sum, 0, 1, 2, 3);
      const Quarter odd = __builtin_shufflevector(sum, sum, 4, 5, 6, 7);
      store_pixel(even + odd + kHalf, to[r] + 3 * x);
    }
  }
}

inline void block_of_columns(const uint8_t* const* rows, const int32_t* weights, int64_t taps, int64_t at,
                             uint8_t* to) {
  Lanes sum[4];
  for (int i = 0; i < 4; ++i) sum[i] = Lanes{} + kHalf;
  for (int64_t t = 0; t < taps; ++t)
    for (int i = 0; i < 4; ++i) sum[i] += widen(rows[t] + at + 8 * i) * weights[t];
  store_block(sum, to);
}

void columns(const uint8_t* const* rows, const int32_t* weights, int64_t taps, int64_t bytes, uint8_t* to) {
  int64_t i = 0;
  for (; i + kResizeBlock <= bytes; i += kResizeBlock) block_of_columns(rows, weights, taps, i, to + i);
  if (i == bytes) return;
  uint8_t block[kResizeBlock];
  block_of_columns(rows, weights, taps, i, block);
  std::memcpy(to + i, block, static_cast<size_t>(bytes - i));
}

}  // namespace

extern const ResizeKernels kResizeKernels;
const ResizeKernels kResizeKernels = {grey, colour, columns};

}  // namespace ddp::DDP_ISA
