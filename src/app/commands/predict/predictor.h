// A trained network on the CPU: a batch of images in, the probability of each class out.
#pragma once

#include "app/commands/predict/trained_network.h"
#include "device/buffer.h"
#include "device/device.h"
#include "ops/ops.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ddp {

class Predictor {
 public:
  // A batch has `batch` images; `threads` threads compute.
  Predictor(TrainedNetwork trained, int64_t batch, int threads);
  Predictor(const Predictor&) = delete;
  Predictor& operator=(const Predictor&) = delete;

  int64_t batch() const { return batch_; }
  std::span<uint8_t> image(int64_t i);  // of the next batch, HWC

  // Computes the batch and returns the probabilities: classes() of each image. The other images of a batch do not
  // change those of an image. Valid until the next call.
  std::span<const float> run();
  int64_t classes() const { return classes_; }

 private:
  const TrainedNetwork trained_;
  const int64_t batch_, image_bytes_, classes_;
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<Ops> ops_;
  const Buffer images_, probabilities_;
  InferenceModel model_;
};

}  // namespace ddp
