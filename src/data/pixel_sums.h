// Exact sums over the pixels of a data set, from which its mean and standard deviation follow. Integers: the result
// does not depend on the order of the samples, so not on ranks or threads.
#pragma once

#include "data/dataset.h"

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ddp {

struct PixelSums {
  std::array<uint64_t, 3> sum = {}, squares = {};  // by channel
  uint64_t pixels = 0;                             // of one channel
  uint8_t largest = 0;                             // value

  void add(const PixelSums& other);
  // As shares of 255, for `channels` channels. The standard deviation is at least 1/255: an image of one colour has 0.
  std::vector<double> mean(int64_t channels) const;
  std::vector<double> deviation(int64_t channels) const;
};

// A hint for pictures whose largest measured value is `largest` of 255, from files with `bits` bits a channel: files of
// 16 bits may hold data of 12, of which 8 bits keep four. Empty where the values use more than an eighth of the range.
std::string narrow_range_hint(int largest, int bits);

// At most `most` samples of `size`, chosen by a fixed key, ascending.
std::vector<int64_t> chosen_samples(int64_t size, int64_t most);

// Reads the samples in epoch 0 with `workers` threads. The data have 1 or 3 channels. Calls `progress` from time to
// time, in the caller's thread. Throws what reading throws, but passes over Error(Exit::data) with `excludes`.
PixelSums pixel_sums(
    const Dataset& data, std::span<const int64_t> samples, int workers, const std::function<void()>& progress = [] {},
    bool excludes = false);

}  // namespace ddp
