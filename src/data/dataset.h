// A dataset: samples of one fixed size, read by index. A sample is an image with a label, or a window of tokens. All
// functions are thread-safe. The interface does not assume that the dataset is in memory.
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
  // What the network reads: an image, or one position for each token, {sequence_length(), 1, 1}.
  virtual ImageShape image_shape() const = 0;
  virtual int classes() const = 0;  // number of labels; for tokens, the size of the vocabulary
  virtual std::span<const std::string> class_names() const { return {}; }  // classes() names, or none
  // For tokens: the number of tokens of a window that the network reads. A window has one token more, because each
  // token is the label of the position before it. 0: samples are images.
  virtual int64_t sequence_length() const { return 0; }
  int64_t sample_bytes() const {
    return sequence_length() > 0 ? (sequence_length() + 1) * int64_t{sizeof(int32_t)} : image_shape().elements();
  }
  // Writes the sample to `bytes`: sample_bytes(), which are an image in the order HWC, or tokens as int32.
  virtual void read(const SampleKey& key, std::span<uint8_t> bytes) const = 0;
  virtual int32_t label(int64_t index) const = 0;  // 0 <= label < classes(); of a window 0

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
