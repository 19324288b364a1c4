// A data set whose labels are those of a network: its classes have other numbers there. Owns the data set.
#pragma once

#include "core/error.h"
#include "data/dataset.h"

#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace ddp {

class Relabelled final : public Dataset {
 public:
  // `label_of`: the new label of each class of `whole`, below `classes`; -1 for a class without samples.
  Relabelled(std::unique_ptr<Dataset> whole, std::vector<int32_t> label_of, int classes)
      : whole_(std::move(whole)), label_of_(std::move(label_of)), classes_(classes) {}

  int64_t size() const override { return whole_->size(); }
  ImageShape image_shape() const override { return whole_->image_shape(); }
  int classes() const override { return classes_; }
  void read(const SampleKey& key, std::span<uint8_t> pixels) const override { whole_->read(key, pixels); }
  int32_t label(int64_t index) const override {
    const int32_t label = label_of_.at(whole_->label(index));
    DDP_EXPECT(label >= 0 && label < classes_);
    return label;
  }
  int64_t picture(int64_t index) const override { return whole_->picture(index); }
  int bits(int64_t index) const override { return whole_->bits(index); }
  bool in_memory() const override { return whole_->in_memory(); }
  std::string being_read() const override { return whole_->being_read(); }
  void announce(std::span<const int64_t> indices) const override { whole_->announce(indices); }

 private:
  const std::unique_ptr<Dataset> whole_;
  const std::vector<int32_t> label_of_;
  const int classes_;
};

}  // namespace ddp
