// The predictions of a list of pictures, batch after batch. The batches are a function of the list alone, so each line
// has the same bytes whichever rank computes its batch.
#pragma once

#include "app/commands/predict/find_pictures.h"
#include "app/commands/predict/picture_reader.h"
#include "app/commands/predict/predict_options.h"
#include "app/commands/predict/predictor.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace ddp {

// The number of classes in a line.
inline int classes_in_line(const PredictOptions& options, const ModelInfo& info) {
  return static_cast<int>(std::min<int64_t>(options.top_k, info.classes));
}

class PictureBatches {
 public:
  // `pictures` has at least one. `threads` threads read and compute, on each of `processes` ranks of this host.
  // `options`, `info` and `pictures` outlive it. Throws Error(Exit::data) for images that need too much memory;
  // `weights` is their name.
  PictureBatches(const PredictOptions& options, const ModelInfo& info, TrainedNetwork trained,
                 const std::string& weights, const std::vector<NamedPicture>& pictures, int threads, int processes);

  int64_t count() const { return (std::ssize(pictures_) + predictor_.batch() - 1) / predictor_.batch(); }

  // The lines of batch number `batch`, from 0 on.
  std::string lines(int64_t batch);

  // Of the lines so far: pictures without a prediction, and animated ones.
  int64_t broken() const { return broken_; }
  int64_t animated() const { return animated_; }

 private:
  std::string read(int thread, const NamedPicture& picture, int64_t slot);
  std::string line(const NamedPicture& picture, const std::string& error, std::span<const float> probabilities);

  const PredictOptions& options_;
  const ModelInfo& info_;
  const std::vector<NamedPicture>& pictures_;
  const int count_;  // classes in a line
  Predictor predictor_;
  std::deque<PictureReader> readers_;  // one for each thread
  int64_t broken_ = 0;
  std::atomic<int64_t> animated_{0};
};

}  // namespace ddp
