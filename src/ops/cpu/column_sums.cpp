#include "ops/cpu/column_sums.h"

#include "ops/cpu/activation.h"
#include "ops/cpu/layout.h"

#include <algorithm>

namespace ddp {

namespace {
constexpr int64_t kColumnParts = 16;  // of the rows
}

int64_t column_gradient_floats(int64_t channels) { return kColumnParts * channels; }

void column_gradient(const Workers& workers, const Tensor& y, const Tensor& dy, float* dbias, Gradient mode,
                     float* scratch) {
  if (!y.data && !dbias) return;
  const int64_t channels = dy.shape.image.c, rows = dy.shape.elements() / channels;
  const int64_t part = ceil_div(rows, kColumnParts);
  if (dbias) std::fill_n(scratch, column_gradient_floats(channels), 0.0f);
  workers.each(ceil_div(rows, part), [&](int64_t p) {
    workers.kernels.activations(dy.dtype).dense.column_gradient(
        {.y = y.data ? element(y, p * part * channels) : nullptr,
         .dy = element(dy, p * part * channels),
         .rows = std::min(part, rows - p * part),
         .width = channels,
         .sums = dbias ? scratch + p * channels : nullptr});
  });
  for (int64_t c = 0; dbias && c < channels; ++c) {
    float sum = 0;
    for (int64_t p = 0; p < kColumnParts; ++p) sum += scratch[p * channels + c];
    dbias[c] = sum + (mode == Gradient::add ? dbias[c] : 0.0f);
  }
}

}  // namespace ddp
