#include "ops/cpu/conv2d.h"

#include "core/error.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/layout.h"

#include <algorithm>
#include <bit>

namespace ddp {

bool suits_dnnl(const Conv2dDesc& desc) {
  return desc.out_channels % 16 == 0 && (desc.input.c % 16 == 0 || desc.input.c < 4);
}

// Each call transforms the weights, which pays only if there are enough tiles.
bool suits_winograd(const Conv2dDesc& desc, int64_t n) {
  constexpr int64_t kMinChannels = 32, kMinTiles = 24;
  const Window2d& w = desc.window;
  if (w.kernel != 3 || w.stride != 1) return false;
  if (!w.padding.none() && w.padding != Padding{1}) return false;  // wrong gradients in oneDNN 2.6
  if (desc.input.c % 16 != 0 || desc.out_channels % 16 != 0) return false;
  if (std::min(desc.input.c, desc.out_channels) < kMinChannels) return false;
  const ImageShape out = conv2d_output(desc);
  return n * ceil_div(out.h, 4) * ceil_div(out.w, 4) >= kMinTiles;
}

int64_t weight_slice(const Conv2dDesc& desc, DType activations) {
  const int64_t taps = desc.window.kernel * desc.window.kernel * desc.input.c / desc.groups;
  const int64_t gradient = taps * desc.out_channels * static_cast<int64_t>(sizeof(float));
  const int64_t sample =
      (desc.input.elements() + conv2d_output(desc).elements()) * static_cast<int64_t>(size_of(activations));
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(ceil_div(2 * gradient, sample))));
}

Format CpuOps::input_format(const Conv2dDesc* first, std::span<const int64_t> batch_sizes) const {
  return first && uses_lanes(*first) ? Format::batch_interleaved(choose_lanes(workers_, batch_sizes)) : Format{};
}

std::unique_ptr<Conv2d> CpuOps::conv2d(const Conv2dDesc& desc, std::span<const int64_t> batch_sizes) {
  DDP_EXPECT(desc.dense || (desc.groups == 1 && desc.window.dilation == 1));
  if (desc.dense && is_depthwise(desc))
    return make_depthwise_conv2d(workers_, dnnl_.scratch, activations_, desc, batch_sizes);
  if (desc.dense && is_product(desc) && activations_ == DType::f32)
    return make_gemm_conv2d(workers_, dnnl_.scratch, desc, batch_sizes);
  if (desc.input_format.kind == Format::Kind::batch_interleaved && uses_lanes(desc))
    return make_lane_conv2d(workers_, desc);
  return chooser_.make(workers_, dnnl_, desc, batch_sizes);
}

}  // namespace ddp
