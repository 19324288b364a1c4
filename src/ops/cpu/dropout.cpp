#include "core/error.h"
#include "core/philox.h"
#include "ops/cpu/activation.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/layout.h"
#include "ops/functors.h"

#include <algorithm>
#include <array>

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

// One factor for each sample. A row of kRow values has kRow / lanes values of each of `lanes` samples.
void drop_samples(const Workers& workers, const Dropout& d, const DeviceBatch& batch, const Tensor& x,
                  const Tensor& y) {
  constexpr int64_t kRow = 128;
  const int64_t lanes = x.format.kind == Format::Kind::batch_interleaved ? x.format.block : 1;
  const int64_t groups = ceil_div(x.shape.n, lanes), length = x.stored() / groups,
                pieces = ceil_div(length, 4 * kPiece);
  const ScaleKernels& kernels = workers.kernels.activations(x.dtype).scale;
  workers.each(groups * pieces, [&](int64_t item) {
    const int64_t group = item / pieces, first = item % pieces * 4 * kPiece, end = std::min(length, first + 4 * kPiece);
    std::array<float, kRow> factors;
    const std::array<float, kRow> shift{};
    for (int64_t l = 0; l < lanes; ++l) {
      float factor = 0;  // of lanes past n
      const int64_t n = group * lanes + l;
      if (n < x.shape.n) Factors(d, batch.keys[n]).each(0, 1, [&](int64_t, float drawn) { factor = drawn; });
      for (int64_t k = l; k < kRow; k += lanes) factors[static_cast<size_t>(k)] = factor;
    }
    const auto scale = [&](int64_t at, int64_t rows, int64_t width) {
      kernels.forward({.x = element(x, group * length + at),
                       .y = element(y, group * length + at),
                       .rows = rows,
                       .stride = kRow,
                       .width = width,
                       .factor = factors.data(),
                       .shift = shift.data()});
    };
    const int64_t rows = (end - first) / kRow;
    scale(first, rows, kRow);
    const int64_t rest = end - first - rows * kRow;
    if (rest > 0) scale(first + rows * kRow, 1, rest);
  });
}

template <class T>
void clear_padded_lanes(T* y, const Shape& shape, Format format) {
  if (format.kind != Format::Kind::batch_interleaved) return;
  const int64_t block = format.block, elements = shape.image.elements();
  for (int64_t i = shape.n; i % block != 0; ++i)
    for (int64_t e = 0; e < elements; ++e) y[(i / block * elements + e) * block + i % block] = T{};
}

}  // namespace

void CpuOps::dropout(const Dropout& dropout, const Tensor& x, const DeviceBatch& batch, const Tensor& y) {
  DDP_EXPECT(x.shape == y.shape && x.format == y.format && x.dtype == y.dtype);
  DDP_EXPECT(batch.keys && dropout.epoch && dropout.rate >= 0 && dropout.rate < 1);
  with_values(x, [&](auto* from) {
    auto* to = static_cast<decltype(from)>(y.data);
    if (dropout.whole_sample)
      drop_samples(workers_, dropout, batch, x, y);
    else
      apply_dropout(workers_, dropout, from, batch, to, x.shape, x.format);
    clear_padded_lanes(to, x.shape, x.format);
  });
  clear_padded_channels(workers_, y);
}

}  // namespace ddp
