#include "app/predict/predictor.h"

#include "checkpoint/state_dict.h"
#include "core/error.h"
#include "device/cpu/device.h"
#include "nn/models.h"
#include "ops/cpu/ops.h"

#include <algorithm>
#include <cmath>

namespace ddp {
namespace {

Buffer upload(Device& device, const std::vector<float>& values) {
  Buffer buffer(device, bytes_of_floats(std::ssize(values)));
  if (!values.empty()) device.upload(buffer.data(), values.data(), buffer.bytes());
  return buffer;
}

// In place, in the numerically safe form.
void softmax(std::span<float> values) {
  const float largest = *std::ranges::max_element(values);
  double sum = 0;
  for (const float value : values) sum += std::exp(double{value} - largest);
  for (float& value : values) value = static_cast<float>(std::exp(double{value} - largest) / sum);
}

}  // namespace

Predictor::Predictor(const ModelInfo& info, const std::filesystem::path& weights, int64_t batch, int threads)
    : batch_(batch),
      image_bytes_(info.image.elements()),
      classes_(info.classes),
      device_(make_cpu_device()),
      ops_(make_cpu_ops(*device_, {.threads = threads})),
      network_(make_model(info.model, info.image, info.classes)),
      parameters_(parameters_of(network_)),
      batch_norms_(batch_norm_states_of(network_)) {
  // Two bytes a value are the least. So a small file cannot ask for much memory.
  require(total_count(parameters_) <= static_cast<int64_t>(std::filesystem::file_size(weights) / 2), Exit::model,
          "{} is too short for {} with {} parameters; it belongs to another model", weights.string(), info.model,
          total_count(parameters_));
  const ModelState state = load_state_dict(weights, parameters_, batch_norms_);
  weights_ = upload(*device_, state.weights);
  running_stats_ = upload(*device_, state.statistics);
  images_ = Buffer(*device_, static_cast<size_t>(batch * image_bytes_));
  device_->zero(images_.data(), images_.bytes());
  probabilities_ = Buffer(*device_, bytes_of_floats(batch * classes_));
  const ModelMemory memory{.weights = weights_.as<float>(), .running_stats = running_stats_.as<float>()};
  ModelConfig config;
  config.inference = true;
  config.pixel_scale = info.pixel_scale;
  model_ = std::make_unique<Model>(network_, parameters_, batch_norms_, std::span(&batch_, 1), *device_, *ops_, memory,
                                   config);
}

std::span<uint8_t> Predictor::image(int64_t i) {
  DDP_EXPECT(i >= 0 && i < batch_);
  return {images_.as<uint8_t>() + i * image_bytes_, static_cast<size_t>(image_bytes_)};
}

std::span<const float> Predictor::run() {
  const DeviceBatch batch{.images = images_.as<uint8_t>(), .size = batch_};
  const Tensor logits = model_->logits(batch, running_stats_.as<float>());
  ops_->reorder(logits, {probabilities_.data(), logits.shape, {}, DType::f32});
  const std::span<float> values(probabilities_.as<float>(), static_cast<size_t>(batch_ * classes_));
  for (int64_t i = 0; i < batch_; ++i) softmax(values.subspan(i * classes_, classes_));
  return values;
}

}  // namespace ddp
