// A dataset in memory.
#pragma once

#include "core/error.h"
#include "data/dataset.h"

#include <cstring>
#include <utility>
#include <vector>

namespace ddp {

class MemoryDataset final : public Dataset {
 public:
  // pixels: the images one after another, HWC. labels: one for each image, 0 <= label < classes.
  MemoryDataset(ImageShape shape, int classes, std::vector<uint8_t> pixels, std::vector<uint8_t> labels)
      : shape_(shape), classes_(classes), pixels_(std::move(pixels)), labels_(std::move(labels)) {
    DDP_EXPECT(static_cast<int64_t>(pixels_.size()) == size() * shape_.elements());
  }

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  ImageShape image_shape() const override { return shape_; }
  int classes() const override { return classes_; }
  void read(const SampleKey& key, std::span<uint8_t> pixels) const override {
    const int64_t index = key.index;
    DDP_EXPECT(index >= 0 && index < size() && static_cast<int64_t>(pixels.size()) == shape_.elements());
    std::memcpy(pixels.data(), pixels_.data() + index * shape_.elements(), pixels.size());
  }
  int32_t label(int64_t index) const override {
    DDP_EXPECT(index >= 0 && index < size());
    return labels_[index];
  }

 private:
  ImageShape shape_;
  int classes_;
  std::vector<uint8_t> pixels_, labels_;
};

}  // namespace ddp
