// How the samples of a global batch are mixed with their partners: mixup (Zhang et al., "mixup: beyond empirical risk
// minimization", ICLR 2018) or CutMix (Yun et al., ICCV 2019), as torchvision's MixUp and CutMix do it. The partner of
// the sample at position g of the batch is the sample at position g - 1; the first one has the last one.
//
//   mixup:   x = lambda * x_own + (1 - lambda) * x_partner
//   CutMix:  x = x_partner inside the box, x_own outside of it; lambda is the share of the image outside of the box
//   both:    target = lambda * onehot(label_own) + (1 - lambda) * onehot(label_partner)
//
// The values are normalized ones, after flips, crops and erasing.
#pragma once

#include "ops/host_device.h"

#include <cstdint>

namespace ddp {

struct BatchMix {
  float lambda = 1;
  int32_t top = 0, left = 0, bottom = 0, right = 0;  // of CutMix, in pixels, without bottom and right; empty: mixup

  DDP_HOST_DEVICE bool cuts() const { return top < bottom && left < right; }
  // The value at row i and column j. In double the products are exact, so all backends give the same bits, with and
  // without fused multiply-add.
  DDP_HOST_DEVICE float operator()(float own, float partner, int64_t i, int64_t j) const {
    if (cuts()) return i >= top && i < bottom && j >= left && j < right ? partner : own;
    const double share = lambda;
    return static_cast<float>(share * own + (1 - share) * partner);
  }
};

// The place of the partner of sample i in a shard of `size` samples, whose memory has one sample more.
DDP_HOST_DEVICE int64_t partner_of(int64_t i, int64_t size) { return i == 0 ? size : i - 1; }

}  // namespace ddp
