// The text of a convolution in the names of measured passes.
#pragma once

#include "ops/conv2d.h"

#include <fmt/format.h>

#include <string>

namespace ddp {

inline std::string text_of(const Conv2dDesc& desc, int64_t n) {
  const auto& [kernel, stride, padding, dilation] = desc.window;
  return fmt::format("{} images of {}x{}x{} to {}, {}x{}, stride {}, padding {},{},{},{}{}{}", n, desc.input.h,
                     desc.input.w, desc.input.c, desc.out_channels, kernel, kernel, stride, padding.top, padding.left,
                     padding.bottom, padding.right, desc.groups > 1 ? fmt::format(", {} groups", desc.groups) : "",
                     dilation > 1 ? fmt::format(", dilation {}", dilation) : "");
}

}  // namespace ddp
