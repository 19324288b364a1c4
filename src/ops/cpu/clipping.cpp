#include "ops/cpu/clipping.h"

#include "ops/cpu/layout.h"
#include "ops/cpu/stream_kernels.h"
#include "ops/functors.h"

#include <algorithm>
#include <array>

namespace ddp {

// The split into at most kItems pieces depends on the count only, and their sums are added in order.
void sum_of_squares(const Workers& workers, const float* values, int64_t count, float* sum, Gradient mode) {
  constexpr int64_t kItems = 1024, kPiece = 16384;
  const FloatKernels& kernels = stream_kernels().floats;
  const int64_t piece = std::max(kPiece, ceil_div(count, kItems)), items = ceil_div(count, piece);
  std::array<double, kItems> partial;
  workers.each(items, [&](int64_t item) {
    partial[static_cast<size_t>(item)] =
        kernels.sum_of_squares(values + item * piece, std::min(piece, count - item * piece));
  });
  double total = mode == Gradient::add ? static_cast<double>(*sum) : 0.0;
  for (int64_t item = 0; item < items; ++item) total += partial[static_cast<size_t>(item)];
  *sum = static_cast<float>(total);
}

void clip_scale(const float* sum, float limit, float* scale) { *scale = ClipScale{limit}(*sum); }

}  // namespace ddp
