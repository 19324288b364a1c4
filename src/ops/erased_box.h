// The box of an image that torchvision's RandomErasing(p, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0) erases:
//
//   random(k) = philox4x32({k, sample key, epoch, Operation::random_erase}, seed)
//   an image is erased if random(0).word[0] < p * 2^32
//   try k = 1 ... 10, with u_i = random(k).word[i] / 2^32:
//     area = rows * columns * (0.02 + 0.31 u_0), ratio = exp(log 0.3 + u_1 (log 3.3 - log 0.3))
//     h = round(sqrt(area * ratio)), w = round(sqrt(area / ratio)); the first try with h < rows and w < columns wins
//     top = floor(u_2 (rows - h + 1)), left = floor(u_3 (columns - w + 1))
//
// If no try wins, nothing is erased.
#pragma once

#include "core/philox.h"
#include "ops/host_device.h"

#include <cmath>
#include <cstdint>

namespace ddp {

struct ErasedBox {
  int64_t top = 0, left = 0, bottom = 0, right = 0;  // in pixels, without bottom and right; empty: nothing is erased

  DDP_HOST_DEVICE bool has_row(int64_t i) const { return i >= top && i < bottom; }
  DDP_HOST_DEVICE bool contains(int64_t i, int64_t j) const { return has_row(i) && j >= left && j < right; }
};

DDP_HOST_DEVICE ErasedBox draw_erased_box(float probability, uint64_t seed, uint32_t epoch, int32_t key, int64_t rows,
                                          int64_t columns) {
  constexpr double kLeastArea = 0.02, kMostArea = 0.33;
  constexpr double kLeastLogRatio = -1.2039728043259361, kMostLogRatio = 1.1939224684724346;  // log 0.3, log 3.3
  constexpr uint32_t kTries = 10;
  const auto random = [&](uint32_t k) {
    return philox4x32({{k, static_cast<uint32_t>(key), epoch, static_cast<uint32_t>(Operation::random_erase)}}, seed);
  };
  if (!(random(0).word[0] < static_cast<double>(probability) * 0x1p32)) return {};
  for (uint32_t k = 1; k <= kTries; ++k) {
    const Bits128 r = random(k);
    const double area =
        static_cast<double>(rows * columns) * (kLeastArea + r.word[0] * 0x1p-32 * (kMostArea - kLeastArea));
    const double ratio = std::exp(kLeastLogRatio + r.word[1] * 0x1p-32 * (kMostLogRatio - kLeastLogRatio));
    const auto h = static_cast<int64_t>(std::sqrt(area * ratio) + 0.5),
               w = static_cast<int64_t>(std::sqrt(area / ratio) + 0.5);
    if (h >= rows || w >= columns) continue;
    const int64_t top = drawn_below(r.word[2], rows - h + 1), left = drawn_below(r.word[3], columns - w + 1);
    return {top, left, top + h, left + w};
  }
  return {};
}

}  // namespace ddp
