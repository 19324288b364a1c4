#include "ops/cpu/activation.h"

#include "core/error.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/layout.h"

#include <cstring>

namespace ddp {
namespace {

bool laid_out_alike(const Tensor& a, const Tensor& b) {
  return a.shape.n == b.shape.n && a.stored() == b.stored() && a.format == b.format && a.dtype == b.dtype;
}

}  // namespace

void clear_padded_channels(const Workers& workers, const Tensor& t) {
  const auto& [h, w, channels] = t.shape.image;
  const int64_t block = t.format.block, filled = channels % block;
  if (t.format.kind != Format::Kind::blocked_channels || filled == 0) return;
  const int64_t blocks = ceil_div(channels, block), positions = h * w;
  workers.each(t.shape.n, [&](int64_t n) {
    for (int64_t i = 0; i < positions; ++i)
      std::memset(element(t, (((n + 1) * blocks - 1) * positions + i) * block + filled), 0,
                  size_of(t.dtype) * static_cast<size_t>(block - filled));
  });
}

void CpuOps::activation(const Activation& activation, const Tensor& x, const Tensor& y) {
  DDP_EXPECT(activation && laid_out_alike(x, y));
  if (activation.is_relu()) return relu(x, y);
  const ElementwiseKernels& kernels = workers_.kernels.activations(x.dtype).elementwise;
  workers_.spans(x.stored(), [&](int64_t first, int64_t end) {
    kernels.activation(activation, element(x, first), element(y, first), end - first);
  });
  if (!activation.keeps_zero()) clear_padded_channels(workers_, y);
}

void CpuOps::activation_backward(const Activation& activation, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  DDP_EXPECT(activation && laid_out_alike(x, dy) && laid_out_alike(x, dx));
  if (activation.is_relu()) return relu_backward(x, dy, dx);
  const ElementwiseKernels& kernels = workers_.kernels.activations(x.dtype).elementwise;
  workers_.spans(x.stored(), [&](int64_t first, int64_t end) {
    kernels.activation_backward(activation, element(x, first), element(dy, first), element(dx, first), end - first);
  });
}

}  // namespace ddp
