#include "app/commands/predict/predict.h"

#include "app/commands/predict/find_pictures.h"
#include "app/commands/predict/picture_reader.h"
#include "app/commands/predict/predict_options.h"
#include "app/commands/predict/predictor.h"
#include "app/commands/predict/trained_network.h"
#include "app/machine/cores.h"
#include "checkpoint/find_weights.h"
#include "core/log.h"
#include "core/run_items.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <filesystem>
#include <vector>

namespace ddp {
namespace {

namespace fs = std::filesystem;

// The size of all batches: at most 32 images and 2^23 pixels, and as few unused places in the last batch as possible.
int64_t batch_size(int64_t pictures, const ImageShape& image) {
  const int64_t most = std::clamp<int64_t>((int64_t{1} << 23) / (image.h * image.w), 1, 32);
  const int64_t batches = (pictures + most - 1) / most;
  return (pictures + batches - 1) / batches;
}

class Predict {
 public:
  Predict(const PredictOptions& options, const ModelInfo& info, const fs::path& weights, FoundPictures found,
          int threads)
      : options_(options),
        info_(info),
        broken_(!found.unread.empty()),
        pictures_(std::move(found.pictures)),
        count_(static_cast<int>(std::min<int64_t>(options.top_k, info.classes))),
        predictor_(info, weights, batch_size(std::ssize(pictures_), info.image), threads) {
    for (int thread = 0; thread < threads; ++thread) readers_.emplace_back(info.transform(), info.decode());
  }

  Exit run(std::FILE* out) {
    if (!write(out, prediction_header(options_.format, count_))) return Exit::done;
    for (int64_t first = 0; first < std::ssize(pictures_); first += predictor_.batch()) {
      const int64_t size = std::min(predictor_.batch(), std::ssize(pictures_) - first);
      run_items(static_cast<int>(readers_.size()), size, [&](int thread, int64_t i) { read(thread, first + i, i); });
      const std::span<const float> probabilities = predictor_.run();
      std::string lines;
      for (int64_t i = 0; i < size; ++i)
        lines += line(pictures_[first + i], probabilities.subspan(i * info_.classes, info_.classes));
      if (!write(out, lines)) return Exit::done;
    }
    if (animated_ > 0)
      Log(0).warn("{} of {} pictures are animated: the first frame is read", animated_.load(), pictures_.size());
    return broken_ ? Exit::data : Exit::done;
  }

 private:
  void read(int thread, int64_t picture, int64_t slot) {
    NamedPicture& named = pictures_[picture];
    if (!named.error.empty()) return;
    try {
      if (readers_[thread].read(named.path, predictor_.image(slot)).animated) ++animated_;
    } catch (const std::exception& e) {
      named.error = e.what();
    }
  }

  std::string line(const NamedPicture& picture, std::span<const float> probabilities) {
    Prediction prediction{.path = picture.path, .error = picture.error};
    if (prediction.error.empty() && !std::ranges::all_of(probabilities, [](float p) { return std::isfinite(p); }))
      prediction.error = "the network computes NaN or infinity";
    if (!prediction.error.empty())
      broken_ = true;
    else
      for (const int64_t k : most_probable(probabilities, count_))
        prediction.classes.emplace_back(info_.class_name(k), probabilities[k]);
    return prediction_line(options_.format, count_, prediction);
  }

  static bool write(std::FILE* out, const std::string& lines) { return write_output(out, lines, "the predictions"); }

  const PredictOptions& options_;
  const ModelInfo& info_;
  bool broken_;  // a picture cannot be read
  std::vector<NamedPicture> pictures_;
  const int count_;  // classes in a line
  Predictor predictor_;
  std::deque<PictureReader> readers_;  // one for each thread
  std::atomic<int64_t> animated_{0};
};

}  // namespace

Exit predict(std::span<const std::string> arguments, std::istream& list, std::FILE* out) {
  std::optional<std::string> answer;
  const PredictOptions options = parse_predict_options(arguments, answer);
  if (answer) {
    write_output(out, *answer, "the output");
    return Exit::done;
  }
  const fs::path weights = find_weights(options.weights, Log(0), options.ema);
  const ModelInfo info = model_info_of(options.network, weights);
  FoundPictures found = find_pictures(options.files, list);
  if (const std::string left_out = found.left_out(); !left_out.empty()) Log(0).warn("{}", left_out);
  if (found.pictures.empty()) return Exit::done;  // of an empty list
  const int cores = cores_within_limit(static_cast<int>(cores_of_process().size()), cpu_limit_of_container());
  const int threads = share_of_cores(options.threads, cores, 1);
  return Predict(options, info, weights, std::move(found), threads).run(out);
}

}  // namespace ddp
