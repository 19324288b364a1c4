// A dataset: labelled images of one fixed shape, read by index. All functions are thread-safe. The interface does not
// assume that the dataset is in memory.
#pragma once

#include "core/shape.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace ddp {

// One reading of a sample: a pure function of the key gives its pixels. The epoch keys the random crops of training.
struct SampleKey {
  int64_t index = 0;  // 0 <= index < size()
  int64_t epoch = 0;  // from 0
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual ImageShape image_shape() const = 0;
  virtual int classes() const = 0;
  virtual std::span<const std::string> class_names() const { return {}; }  // classes() names, or none
  // Writes the image to `pixels`: image_shape().elements() values, HWC.
  virtual void read(const SampleKey& key, std::span<uint8_t> pixels) const = 0;
  virtual int32_t label(int64_t index) const = 0;  // 0 <= label < classes()

  // The position of the sample's picture in the list of the files, for a data set of pictures.
  virtual int64_t picture(int64_t index) const { return index; }

  // Bits of a channel in the file of the sample; read() gives the upper 8.
  virtual int bits(int64_t index) const {
    (void)index;
    return 8;
  }

  // The same samples without automatic augmentation: what the statistics of pixels and of batch norms are taken from.
  virtual const Dataset& unaugmented() const { return *this; }

  // Whether read() only copies memory, and ignores the epoch. If not, several threads should read.
  virtual bool in_memory() const { return true; }
  // The file that a thread has been reading for the longest time, for a message; empty: none, or there are no files.
  virtual std::string being_read() const { return {}; }
  // These samples are read soon: a hint to the system to load their files.
  virtual void announce(std::span<const int64_t> indices) const { (void)indices; }
};

struct Datasets {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> test;  // null: no evaluation
};

}  // namespace ddp
