#include "data/augment/augmented_dataset.h"

#include "core/error.h"
#include "data/augment/affine.h"

#include <utility>

namespace ddp {

AugmentedDataset::AugmentedDataset(std::unique_ptr<Dataset> plain, const AutoAugmentConfig& config)
    : plain_(std::move(plain)), config_(config) {
  constexpr int64_t kMostPixels = 16384;  // offsets of pixels have 32 bits
  const auto& [h, w, c] = plain_->image_shape();
  require((c == 1 || c == 3) && h <= kMostPixels && w <= kMostPixels, Exit::usage,
          "--auto-augment needs images of 1 or 3 channels and at most {} rows and columns; these are {} x {} x {}",
          kMostPixels, h, w, c);
}

std::unique_ptr<AugmentedDataset::Scratch> AugmentedDataset::take_scratch() const {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<Scratch>(scratch_bytes(image_shape()));
  auto scratch = std::move(idle_.back());
  idle_.pop_back();
  return scratch;
}

void AugmentedDataset::read(const SampleKey& key, std::span<uint8_t> pixels) const {
  plain_->read(key, pixels);
  auto scratch = take_scratch();
  for (int i = 0; i < config_.operations(); ++i)
    apply_step(draw_step(config_, image_shape(), key, i), image_shape(), config_.interpolation, pixels, *scratch);
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(scratch));
}

}  // namespace ddp
