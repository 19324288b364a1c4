// A dataset: labelled images of one fixed shape, read by index. Reading is thread-safe. The interface does not assume
// that the dataset is in memory.
#pragma once

#include "core/shape.h"

#include <cstdint>
#include <memory>
#include <span>

namespace ddp {

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual ImageShape image_shape() const = 0;
  virtual int classes() const = 0;
  // Copies image `index`, 0 <= index < size(), to `pixels`: image_shape().elements() values, HWC.
  virtual void read(int64_t index, std::span<uint8_t> pixels) const = 0;
  virtual int32_t label(int64_t index) const = 0;  // 0 <= label < classes()
};

struct Datasets {
  std::unique_ptr<Dataset> train, test;
};

}  // namespace ddp
