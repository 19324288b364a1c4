// The first samples of a dataset. The subset owns the dataset (unique_ptr), or the dataset must outlive it (reference).
#pragma once

#include "core/error.h"
#include "data/dataset.h"

#include <utility>

namespace ddp {

class Subset final : public Dataset {
 public:
  // Throws Error(Exit::usage) if `samples` is below 1 or above the size of `whole`.
  Subset(std::unique_ptr<Dataset> whole, int64_t samples) : Subset(*whole, samples) { owned_ = std::move(whole); }
  Subset(const Dataset& whole, int64_t samples) : whole_(whole), samples_(samples) {
    require(samples >= 1 && samples <= whole_.size(), Exit::usage,
            "cannot use {} samples: the dataset holds {}; choose 1 to {}", samples, whole_.size(), whole_.size());
  }

  int64_t size() const override { return samples_; }
  ImageShape image_shape() const override { return whole_.image_shape(); }
  int classes() const override { return whole_.classes(); }
  void read(int64_t index, std::span<uint8_t> pixels) const override { whole_.read(checked(index), pixels); }
  int32_t label(int64_t index) const override { return whole_.label(checked(index)); }

 private:
  int64_t checked(int64_t index) const {
    DDP_EXPECT(index >= 0 && index < samples_);
    return index;
  }

  std::unique_ptr<Dataset> owned_;
  const Dataset& whole_;
  int64_t samples_;
};

}  // namespace ddp
