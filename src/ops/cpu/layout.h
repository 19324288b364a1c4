// Conversions between formats, the number of lanes, and index arithmetic of several ops.
#pragma once

#include "device/tensor.h"
#include "ops/cpu/parallel.h"

#include <cstdint>
#include <span>

namespace ddp {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The indices from `first` up to, but not including, `end`.
struct Interval {
  int64_t first, end;
  int64_t size() const { return end > first ? end - first : 0; }
};

// The layout of one sample: strides over pixels, over channels in a block, and over blocks of channels.
struct SampleLayout {
  int64_t first, pixel_step, channel_step, block, block_step;

  int64_t at(int64_t channel) const { return first + channel / block * block_step + channel % block * channel_step; }
};

SampleLayout layout_of(const Tensor& t, int64_t n);

// The number of lanes: 16 if the kernels are for AVX-512 and the largest batch fills 16 nearly as well as 8, else 8.
int choose_lanes(const Workers& workers, std::span<const int64_t> batch_sizes);

// Whether the memory is the same as in the dense format. This includes full blocks of channels with one position.
bool is_dense(const Tensor& t);

// Copies values to another format, another type, or both. Padding becomes 0, or is copied if the format is the same.
void reorder(const Workers& workers, const Tensor& from, const Tensor& to);

// From batch-interleaved [ceil(n/lanes)][features][lanes] to [n][features], with rows `stride` floats apart.
void to_dense(const Workers& workers, const float* in_lanes, int64_t n, int64_t features, int lanes, float* dense,
              int64_t stride);

}  // namespace ddp
