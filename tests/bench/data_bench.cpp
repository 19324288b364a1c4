// How fast pictures in files become the input of a network; tests/bench/data compares it with others.
//
//   data_bench pipeline FOLDER WORKERS SECONDS CHANNELS   RandomResizedCrop(224), flip and normalised f32: the data set
//                                                         and the loader of a run, and the CPU backend's normalize
//   data_bench crop|full FOLDER SECONDS                   one thread, RandomResizedCrop(224): only what the crop needs
//                                                         is decoded, or the whole picture before it is cut and resized
//
// Prints one JSON object: pictures/s and the mean of each channel, of the normalised values or of the pixels.
#include "core/stopwatch.h"
#include "data/codec/jpeg.h"
#include "data/folder.h"
#include "data/loader.h"
#include "data/picture_dataset.h"
#include "data/resize.h"
#include "device/cpu/device.h"
#include "ops/cpu/ops.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace ddp {
namespace {

constexpr int64_t kBatch = 64, kCrop = 224;
const TransformConfig kTransform = {.kind = TransformConfig::Kind::rrc, .crop = {kCrop, kCrop}};

template <class T>
std::array<double, 3> means_of(const T* values, int64_t count, int64_t channels) {
  std::array<double, 3> sums = {};
  for (int64_t i = 0; i < count; ++i) sums[i % channels] += static_cast<double>(values[i]);
  for (double& sum : sums) sum /= static_cast<double>(count / channels);
  return sums;
}

void print(double rate, const std::array<double, 3>& means) {
  fmt::print("{{\"rate\": {:.2f}, \"means\": [{:.5f}]}}\n", rate, fmt::join(means, ", "));
}

// Of whole epochs.
template <class Epoch>
double pictures_per_second(double seconds, int64_t pictures, const Epoch& run_epoch) {
  const Stopwatch watch;
  double rate = 0;
  for (int64_t epochs = 1; watch.seconds() < seconds; ++epochs) {
    run_epoch();
    rate = static_cast<double>(epochs * pictures) / watch.seconds();
  }
  return rate;
}

// The first epoch gives the means. The second empties what was read ahead meanwhile, then the time counts.
void pipeline(const std::string& folder, int workers, double seconds, int channels) {
  const PictureDataset data(list_folder(folder).train, folder, kTransform, {.channels = channels});
  const DistributedSampler sampler(data.size(), kBatch, Order::shuffled, 1, 0, {1.0});
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {});
  Loader loader(data, sampler, 0, std::numeric_limits<int32_t>::max(), device->host_memory(), {.workers = workers});
  std::vector<float> values(kBatch * data.image_shape().elements());

  PixelScale scale;
  for (size_t c = 0; c < 3; ++c) {
    constexpr std::array<float, 3> kMean = {0.485f, 0.456f, 0.406f}, kStd = {0.229f, 0.224f, 0.225f};
    scale.scale[c] = 1 / (255 * kStd[c]);
    scale.shift[c] = -kMean[c] / kStd[c];
  }
  uint32_t epoch = 0;
  const auto run_epoch = [&](std::array<double, 3>* means) {
    for (int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
      const HostBatch& batch = loader.next();
      const DeviceBatch input = {
          .samples = batch.samples, .labels = batch.labels, .keys = batch.ids, .size = batch.plan.size};
      ops->normalize(input, data.image_shape(), scale, {.hflip = 0.5f, .seed = 1, .epoch = &epoch},
                     {values.data(), {input.size, data.image_shape()}, {}, DType::f32});
      if (!means) continue;
      const auto of_batch = means_of(values.data(), input.size * data.image_shape().elements(), channels);
      for (size_t c = 0; c < 3; ++c)
        (*means)[c] += of_batch[c] * static_cast<double>(input.size) / static_cast<double>(data.size());
    }
    ++epoch;
  };
  std::array<double, 3> means = {};
  run_epoch(&means);
  run_epoch(nullptr);
  print(pictures_per_second(seconds, data.size(), [&] { run_epoch(nullptr); }), means);
}

// A whole picture, 4 bytes a pixel.
class WholePicture : public RowSink {
 public:
  explicit WholePicture(PictureSize size) : stride(4 * size.w), pixels(size.h * stride + kResizePadding) {}
  void put(const uint8_t* rows, int64_t from_stride, int64_t count) override {
    for (int64_t i = 0; i < count; ++i, end_ += stride) std::memcpy(&pixels[end_], rows + i * from_stride, stride);
  }
  const int64_t stride;
  std::vector<uint8_t> pixels;

 private:
  int64_t end_ = 0;
};

void decode_all(const std::vector<uint8_t>& file, const SampleKey& key, std::span<uint8_t> pixels) {
  const PictureSize size = read_picture_header(file, true).size;
  WholePicture picture(size);
  JpegDecoder().decode(file, {.stored = size, .box = {0, 0, size.w, size.h}}, picture);
  const Box part = geometry_of(kTransform, size, key).source;
  const auto axis = [](int64_t length) {
    return ResizeAxis{.input = length, .end = static_cast<double>(length), .output = kCrop, .count = kCrop};
  };
  Resize resize;
  const Box need = resize.begin(axis(part.w), axis(part.h), Interpolation::bilinear, 3);
  resize.put(&picture.pixels[(part.y + need.y) * picture.stride + 4 * (part.x + need.x)], picture.stride, need.h,
             pixels.data(), 3 * kCrop);
}

void single(bool full, const std::string& folder, double seconds) {
  const PictureList list = list_folder(folder).train;
  const PictureDataset data(list, folder, kTransform, {});
  const FolderReader reader(folder);
  std::vector<uint8_t> file, pixels(3 * kCrop * kCrop);
  const auto run_epoch = [&](std::array<double, 3>* means) {
    for (int64_t i = 0; i < data.size(); ++i) {
      if (full) {
        reader.read(list.path(i), {.bytes = list.bytes(i), .mtime_ns = list.mtime_ns(i)}, file);
        decode_all(file, {.index = i}, pixels);
      } else {
        data.read({.index = i}, pixels);
      }
      if (!means) continue;
      const auto of_picture = means_of(pixels.data(), std::ssize(pixels), 3);
      for (size_t c = 0; c < 3; ++c) (*means)[c] += of_picture[c] / static_cast<double>(data.size());
    }
  };
  std::array<double, 3> means = {};
  run_epoch(&means);
  print(pictures_per_second(seconds, data.size(), [&] { run_epoch(nullptr); }), means);
}

}  // namespace
}  // namespace ddp

int main(int count, char** arguments) {
  const std::string what = count > 1 ? arguments[1] : "";
  if (what == "pipeline" && count == 6)
    ddp::pipeline(arguments[2], std::atoi(arguments[3]), std::atof(arguments[4]), std::atoi(arguments[5]));
  else if ((what == "crop" || what == "full") && count == 4)
    ddp::single(what == "full", arguments[2], std::atof(arguments[3]));
  else
    return 2;
}
