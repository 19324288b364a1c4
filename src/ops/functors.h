// Elementwise mathematics, written once; each backend only launches it.
#pragma once

#include "ops/host_device.h"

#include <cstdint>

namespace ddp {

struct Relu {
  DDP_HOST_DEVICE float operator()(float x) const { return x > 0 ? x : 0; }
};

struct ReluGradient {
  DDP_HOST_DEVICE float operator()(float y, float dy) const { return y > 0 ? dy : 0; }
};

struct Normalize {
  DDP_HOST_DEVICE float operator()(uint8_t pixel) const { return static_cast<float>(pixel) * (1.0f / 255.0f); }
};

struct SgdStep {
  float lr;
  DDP_HOST_DEVICE float operator()(float w, float g) const { return w - lr * g; }
};

// d loss / d logit, given exp(z - max) of one class and the reciprocal of their sum.
struct SoftmaxGradient {
  float scale;
  DDP_HOST_DEVICE float operator()(float exp_z, float reciprocal_sum, bool is_label) const {
    return (exp_z * reciprocal_sum - (is_label ? 1.0f : 0.0f)) * scale;
  }
};

struct IsNonfinite {
  DDP_HOST_DEVICE bool operator()(uint32_t bits) const { return (bits & 0x7f800000u) == 0x7f800000u; }
};

}  // namespace ddp
