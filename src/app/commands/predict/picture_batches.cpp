#include "app/commands/predict/picture_batches.h"

#include "core/run_items.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ddp {
namespace {

// The size of all batches: at most 32 images and 2^23 pixels, and as few unused places in the last batch as possible.
int64_t batch_size(int64_t pictures, const ImageShape& image) {
  const int64_t most = std::clamp<int64_t>((int64_t{1} << 23) / (image.h * image.w), 1, 32);
  const int64_t batches = (pictures + most - 1) / most;
  return (pictures + batches - 1) / batches;
}

TrainedNetwork checked(TrainedNetwork trained, int64_t batch, int processes, const std::string& weights) {
  require_memory(trained.network, batch, processes, weights);
  return trained;
}

}  // namespace

PictureBatches::PictureBatches(const PredictOptions& options, const ModelInfo& info, TrainedNetwork trained,
                               const std::string& weights, const std::vector<NamedPicture>& pictures, int threads,
                               int processes)
    : options_(options),
      info_(info),
      pictures_(pictures),
      count_(classes_in_line(options, info)),
      predictor_(checked(std::move(trained), batch_size(std::ssize(pictures), info.image), processes, weights),
                 batch_size(std::ssize(pictures), info.image), threads) {
  for (int thread = 0; thread < threads; ++thread) readers_.emplace_back(info.transform(), info.decode());
}

std::string PictureBatches::lines(int64_t batch) {
  const int64_t first = batch * predictor_.batch(), size = std::min(predictor_.batch(), std::ssize(pictures_) - first);
  std::vector<std::string> errors(static_cast<size_t>(size));
  run_items(static_cast<int>(readers_.size()), size,
            [&](int thread, int64_t i) { errors[i] = read(thread, pictures_[first + i], i); });
  const std::span<const float> probabilities = predictor_.run();
  std::string lines;
  for (int64_t i = 0; i < size; ++i)
    lines += line(pictures_[first + i], errors[i], probabilities.subspan(i * info_.classes, info_.classes));
  return lines;
}

// Returns why there is no picture.
std::string PictureBatches::read(int thread, const NamedPicture& picture, int64_t slot) {
  if (!picture.error.empty()) return picture.error;
  try {
    if (readers_[thread].read(picture.path, predictor_.image(slot)).animated) ++animated_;
    return "";
  } catch (const std::exception& e) {
    return e.what();
  }
}

std::string PictureBatches::line(const NamedPicture& picture, const std::string& error,
                                 std::span<const float> probabilities) {
  Prediction prediction{.path = picture.path, .error = error};
  if (prediction.error.empty() && !std::ranges::all_of(probabilities, [](float p) { return std::isfinite(p); }))
    prediction.error = "the network computes NaN or infinity";
  if (!prediction.error.empty())
    ++broken_;
  else
    for (const int64_t k : most_probable(probabilities, count_))
      prediction.classes.emplace_back(info_.class_name(k), probabilities[k]);
  return prediction_line(options_.format, count_, prediction);
}

}  // namespace ddp
