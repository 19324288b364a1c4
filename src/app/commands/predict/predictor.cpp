#include "app/commands/predict/predictor.h"

#include "core/error.h"
#include "device/cpu/device.h"
#include "ops/cpu/ops.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ddp {
namespace {

// In place, in the numerically safe form.
void softmax(std::span<float> values) {
  const float largest = *std::ranges::max_element(values);
  double sum = 0;
  for (const float value : values) sum += std::exp(double{value} - largest);
  for (float& value : values) value = static_cast<float>(std::exp(double{value} - largest) / sum);
}

}  // namespace

Predictor::Predictor(TrainedNetwork trained, int64_t batch, int threads)
    : trained_(std::move(trained)),
      batch_(batch),
      image_bytes_(trained_.network.input().elements()),
      classes_(trained_.network.output().elements()),
      device_(make_cpu_device()),
      ops_(make_cpu_ops(*device_, {.threads = threads})),
      images_(*device_, static_cast<size_t>(batch * image_bytes_)),
      probabilities_(*device_, bytes_of_floats(batch * classes_)),
      model_(trained_, std::span(&batch_, 1), *device_, *ops_) {
  device_->zero(images_.data(), images_.bytes());
}

std::span<uint8_t> Predictor::image(int64_t i) {
  DDP_EXPECT(i >= 0 && i < batch_);
  return {images_.as<uint8_t>() + i * image_bytes_, static_cast<size_t>(image_bytes_)};
}

std::span<const float> Predictor::run() {
  const DeviceBatch batch{.samples = images_.as<uint8_t>(), .size = batch_};
  const Tensor logits = model_.model().logits(batch, model_.running_stats());
  ops_->reorder(logits, {probabilities_.data(), logits.shape, {}, DType::f32});
  const std::span<float> values(probabilities_.as<float>(), static_cast<size_t>(batch_ * classes_));
  for (int64_t i = 0; i < batch_; ++i) softmax(values.subspan(i * classes_, classes_));
  return values;
}

}  // namespace ddp
