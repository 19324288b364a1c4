// Some samples of a dataset: the first ones if it is in memory. Files lie in the order of their classes, so of pictures
// the subset has samples of all classes, mixed, in a fixed random order. The subset owns the dataset (unique_ptr), or
// the dataset must outlive it (reference).
#pragma once

#include "core/error.h"
#include "data/dataset.h"
#include "data/permutation.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ddp {

class Subset final : public Dataset {
 public:
  // Throws Error(Exit::usage) if `samples` is below 1 or above the size of `whole`.
  Subset(std::unique_ptr<Dataset> whole, int64_t samples) : Subset(*whole, samples) { owned_ = std::move(whole); }
  Subset(const Dataset& whole, int64_t samples)
      : whole_(whole), samples_(samples), order_(kSeed, 0, std::max<int64_t>(1, whole.size())) {
    require(samples >= 1 && samples <= whole_.size(), Exit::usage,
            "cannot use {} samples: the dataset holds {}; choose 1 to {}", samples, whole_.size(), whole_.size());
  }

  int64_t size() const override { return samples_; }
  ImageShape image_shape() const override { return whole_.image_shape(); }
  int64_t sequence_length() const override { return whole_.sequence_length(); }
  int classes() const override { return whole_.classes(); }
  std::span<const std::string> class_names() const override { return whole_.class_names(); }
  void read(const SampleKey& key, std::span<uint8_t> pixels) const override {
    whole_.read({original(key.index), key.epoch}, pixels);
  }
  int32_t label(int64_t index) const override { return whole_.label(original(index)); }
  int64_t picture(int64_t index) const override { return whole_.picture(original(index)); }
  int bits(int64_t index) const override { return whole_.bits(original(index)); }
  bool in_memory() const override { return whole_.in_memory(); }
  std::string being_read() const override { return whole_.being_read(); }
  void announce(std::span<const int64_t> indices) const override {
    std::vector<int64_t> originals;
    for (const int64_t index : indices) originals.push_back(original(index));
    whole_.announce(originals);
  }

 private:
  static constexpr uint64_t kSeed = 1;  // not --seed: the same samples in every run

  int64_t original(int64_t index) const {
    DDP_EXPECT(index >= 0 && index < samples_);
    return whole_.in_memory() ? index : order_(index);
  }

  std::unique_ptr<Dataset> owned_;
  const Dataset& whole_;
  int64_t samples_;
  Permutation order_;
};

}  // namespace ddp
