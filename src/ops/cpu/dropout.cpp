#include "core/error.h"
#include "core/philox.h"
#include "ops/cpu/activation.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/layout.h"
#include "ops/functors.h"

#include <algorithm>

namespace ddp {
namespace {

// The dropout factors of one sample.
class Factors {
 public:
  Factors(const Dropout& d, int32_t key)
      : seed_(d.seed),
        key_(static_cast<uint32_t>(key)),
        epoch_(*d.epoch),
        operation_(dropout_operation(d)),
        factor_(dropout_factor(d)) {}

  // Calls f(element, factor) for the elements [first, end). `first` is a multiple of 4.
  template <class F>
  void each(int64_t first, int64_t end, F&& f) const {
    for (int64_t e = first; e < end; e += 4) {
      const Bits128 random = philox4x32({{static_cast<uint32_t>(e / 4), key_, epoch_, operation_}}, seed_);
      for (int64_t i = 0; i < std::min<int64_t>(4, end - e); ++i) f(e + i, factor_(random.word[i]));
    }
  }

 private:
  uint64_t seed_;
  uint32_t key_, epoch_, operation_;
  DropoutFactor factor_;
};

constexpr int64_t kPiece = 4096;  // elements of a sample per item

template <class T>
void apply_dropout(const Workers& workers, const Dropout& d, const T* x, const DeviceBatch& batch, T* y,
                   const Shape& shape, Format format) {
  const int64_t elements = shape.image.elements(), pieces = ceil_div(elements, kPiece);
  const int64_t channels = shape.image.c, positions = shape.image.h * shape.image.w, block = format.block;
  workers.each(shape.n * pieces, [&](int64_t item) {
    const int64_t n = item / pieces, first = item % pieces * kPiece, end = std::min(elements, first + kPiece);
    const Factors factors(d, batch.keys[n]);
    const auto write = [&](int64_t at, float factor) { set(y[at], get(x[at]) * factor); };
    if (format.kind != Format::Kind::blocked_channels) {
      const int64_t base = n / block * block * elements + n % block;
      factors.each(first, end, [&](int64_t e, float factor) { write(base + e * block, factor); });
      return;
    }
    const int64_t base = n * ceil_div(channels, block) * positions * block;
    int64_t p = first / channels, c = first % channels;
    factors.each(first, end, [&](int64_t, float factor) {
      write(base + (c / block * positions + p) * block + c % block, factor);
      if (++c == channels) {
        c = 0;
        ++p;
      }
    });
  });
}

// Zeroes lanes past n and channels past c.
template <class T>
void clear_padding(T* y, const Shape& shape, Format format) {
  const int64_t block = format.block;
  if (format.kind == Format::Kind::batch_interleaved) {
    const int64_t elements = shape.image.elements();
    for (int64_t i = shape.n; i % block != 0; ++i)
      for (int64_t e = 0; e < elements; ++e) y[(i / block * elements + e) * block + i % block] = T{};
  } else if (format.kind == Format::Kind::blocked_channels && shape.image.c % block != 0) {
    const int64_t positions = shape.image.h * shape.image.w, blocks = ceil_div(shape.image.c, block);
    for (int64_t n = 0; n < shape.n; ++n)
      for (int64_t p = 0; p < positions; ++p) {
        T* const last = y + (((n + 1) * blocks - 1) * positions + p) * block;
        std::fill(last + shape.image.c % block, last + block, T{});
      }
  }
}

}  // namespace

void CpuOps::dropout(const Dropout& dropout, const Tensor& x, const DeviceBatch& batch, const Tensor& y) {
  DDP_EXPECT(x.shape == y.shape && x.format == y.format && x.dtype == y.dtype);
  DDP_EXPECT(batch.keys && dropout.epoch && dropout.rate >= 0 && dropout.rate < 1);
  with_values(x, [&](auto* from) {
    auto* to = static_cast<decltype(from)>(y.data);
    apply_dropout(workers_, dropout, from, batch, to, x.shape, x.format);
    clear_padding(to, x.shape, x.format);
  });
}

}  // namespace ddp
