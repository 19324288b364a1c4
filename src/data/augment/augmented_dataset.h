// A data set whose images are augmented whenever they are read. Owns the data set.
#pragma once

#include "data/augment/policy.h"
#include "data/dataset.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace ddp {

class AugmentedDataset final : public Dataset {
 public:
  // Throws Error(Exit::usage) for images that have neither 1 nor 3 channels, or a side above 16384 pixels.
  AugmentedDataset(std::unique_ptr<Dataset> plain, const AutoAugmentConfig& config);

  int64_t size() const override { return plain_->size(); }
  ImageShape image_shape() const override { return plain_->image_shape(); }
  int classes() const override { return plain_->classes(); }
  std::span<const std::string> class_names() const override { return plain_->class_names(); }
  void read(const SampleKey& key, std::span<uint8_t> pixels) const override;
  int32_t label(int64_t index) const override { return plain_->label(index); }
  int64_t picture(int64_t index) const override { return plain_->picture(index); }
  int bits(int64_t index) const override { return plain_->bits(index); }
  bool in_memory() const override { return false; }
  std::string being_read() const override { return plain_->being_read(); }
  void announce(std::span<const int64_t> indices) const override { plain_->announce(indices); }
  const Dataset& unaugmented() const override { return *plain_; }

 private:
  using Scratch = std::vector<uint8_t>;
  std::unique_ptr<Scratch> take_scratch() const;

  const std::unique_ptr<Dataset> plain_;
  const AutoAugmentConfig config_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> idle_;
};

}  // namespace ddp
