#include "data/resize.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>

namespace ddp {
namespace {

// Pillow's filters, of the distance in input pixels over the scale.
double bilinear(double x) {
  x = std::abs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}

double bicubic(double x) {  // Keys' kernel with a = -1/2
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
  return 0.0;
}

int32_t fixed_point(double weight) {
  return static_cast<int32_t>((weight < 0 ? -0.5 : 0.5) + weight * (1 << kResizeBits));
}

}  // namespace

void ResizeWeights::plan(const ResizeAxis& axis, Interpolation interpolation, int copies) {
  DDP_EXPECT(0 <= axis.begin && axis.begin < axis.end && axis.end <= static_cast<double>(axis.input));
  DDP_EXPECT(axis.count > 0 && axis.first >= 0 && axis.first + axis.count <= axis.output);
  taps.clear();
  values.clear();
  // Adds the weights of one output, without the zeros at their ends, which other weights may follow.
  std::vector<int32_t> weights;
  const auto add = [&](int64_t start) {
    size_t low = 0, high = weights.size();
    while (low + 1 < high && weights[low] == 0) ++low;
    while (high > low + 1 && weights[high - 1] == 0) --high;
    taps.push_back({start + static_cast<int64_t>(low), static_cast<int64_t>(high - low), std::ssize(values)});
    weights.resize(high + (4 - (high - low) % 4) % 4, 0);
    for (size_t i = low; i < weights.size(); ++i) values.insert(values.end(), static_cast<size_t>(copies), weights[i]);
  };

  const double scale = (axis.end - axis.begin) / static_cast<double>(axis.output);
  const int64_t last = axis.first + axis.count;
  if (interpolation == Interpolation::nearest) {
    double at = axis.begin + scale * 0.5;  // summed up as in Pillow, so that it rounds alike
    for (int64_t o = 0; o < last; ++o, at += scale) {
      if (o < axis.first) continue;
      weights.assign(1, 1 << kResizeBits);
      add(std::min(static_cast<int64_t>(at), axis.input - 1));
    }
  } else {
    const auto filter = interpolation == Interpolation::bilinear ? bilinear : bicubic;
    const double filter_scale = std::max(scale, 1.0), inverse = 1.0 / filter_scale;
    const double support = (interpolation == Interpolation::bilinear ? 1.0 : 2.0) * filter_scale;
    std::vector<double> real;
    for (int64_t o = axis.first; o < last; ++o) {
      const double center = axis.begin + (static_cast<double>(o) + 0.5) * scale;
      const int64_t low = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
      const int64_t high = std::min(static_cast<int64_t>(center + support + 0.5), axis.input);
      double sum = 0;
      real.clear();
      for (int64_t i = low; i < high; ++i) {
        real.push_back(filter((static_cast<double>(i) - center + 0.5) * inverse));
        sum += real.back();
      }
      weights.clear();
      for (const double weight : real) weights.push_back(fixed_point(sum == 0 ? weight : weight / sum));
      add(low);
    }
  }

  first = taps.front().start;
  int64_t end = 0;
  span = 0;
  for (const ResizeTaps& t : taps) {
    first = std::min(first, t.start);
    end = std::max(end, t.start + t.count);
    span = std::max(span, end - t.start);
  }
  count = end - first;
  for (ResizeTaps& t : taps) t.start -= first;
}

Box Resize::begin(const ResizeAxis& x, const ResizeAxis& y, Interpolation interpolation, int channels) {
  DDP_EXPECT(channels == 1 || channels == 3);
  channels_ = channels;
  x_.plan(x, interpolation, channels == 1 ? 1 : 4);
  y_.plan(y, interpolation, 1);
  ring_rows_ = y_.span + kResizeStrip;
  ring_stride_ = (x.count * channels / kResizeBlock + 1) * kResizeBlock;  // with a byte to spare
  ring_.resize(static_cast<size_t>(ring_rows_ * ring_stride_));
  rows_in_ = rows_out_ = 0;
  return {x_.first, y_.first, x_.count, y_.count};
}

void Resize::put(const uint8_t* rows, int64_t stride, int64_t count, uint8_t* to, int64_t to_stride) {
  const int64_t outputs = std::ssize(x_.taps);
  for (int64_t done = 0; done < count;) {
    const int64_t strip = std::min(kResizeStrip, count - done);
    uint8_t* places[kResizeStrip];
    for (int64_t r = 0; r < strip; ++r) places[r] = kept(rows_in_ + r);
    (channels_ == 1 ? kernels_.grey : kernels_.colour)(x_.taps.data(), x_.values.data(), outputs, rows + done * stride,
                                                       stride, strip, places);
    done += strip;
    rows_in_ += strip;
    for (; rows_out_ < std::ssize(y_.taps); ++rows_out_) {
      const ResizeTaps& taps = y_.taps[static_cast<size_t>(rows_out_)];
      if (taps.start + taps.count > rows_in_) break;
      column_.clear();
      for (int64_t t = 0; t < taps.count; ++t) column_.push_back(kept(taps.start + t));
      kernels_.columns(column_.data(), y_.values.data() + taps.weights, taps.count, outputs * channels_,
                       to + rows_out_ * to_stride);
    }
  }
}

}  // namespace ddp
