#include "app/commands/predict/predict.h"

#include "app/commands/predict/continue_texts.h"
#include "app/commands/predict/picture_batches.h"
#include "app/commands/predict/prediction_output.h"
#include "app/machine/cores.h"
#include "checkpoint/find_weights.h"

#include <filesystem>
#include <optional>
#include <utility>

namespace ddp {

void warn_of_animated(const Log& log, int64_t animated, int64_t pictures) {
  log.warn("{} of {} pictures are animated: the first frame is read", animated, pictures);
}

Exit predict(std::span<const std::string> arguments, std::istream& list, std::FILE* out) {
  std::optional<std::string> answer;
  const PredictOptions options = parse_predict_options(arguments, answer);
  if (answer) {
    write_output(out, *answer, "the output");
    return Exit::done;
  }
  const Log log(0);
  PredictionOutput output(options, out);
  const std::filesystem::path weights = find_weights(options.weights, log, options.ema);
  const ModelInfo info = model_info_of(options.network, weights);
  require_options_fit_network(options, info);
  if (info.reads_tokens()) return continue_texts(options, info, weights, list, out, log);
  const FoundPictures found = find_pictures(options.files, list);
  const int64_t pictures = std::ssize(found.pictures);
  if (const std::string left_out = found.left_out(); !left_out.empty()) log.warn("{}", left_out);
  if (pictures == 0 && options.csv.empty()) return Exit::done;  // of an empty list
  std::optional<PictureBatches> batches;
  if (pictures > 0) {
    const int cores = cores_within_limit(static_cast<int>(cores_of_process().size()), cpu_limit_of_container());
    TrainedNetwork trained =
        read_trained_network(info, weights, [&](const std::string& line) { log.warn("{}", line); });
    batches.emplace(options, info, std::move(trained), weights, found.pictures,
                    share_of_cores(options.threads, cores, 1), 1);
  }
  if (!output.write(prediction_header(options.format, classes_in_line(options, info)))) return Exit::done;
  for (int64_t batch = 0; batches && batch < batches->count(); ++batch)
    if (!output.write(batches->lines(batch))) return Exit::done;
  const int64_t broken = batches ? batches->broken() : 0, animated = batches ? batches->animated() : 0;
  if (animated > 0) warn_of_animated(log, animated, pictures);
  output.end(pictures, broken);
  return broken > 0 || !found.unread.empty() ? Exit::data : Exit::done;
}

}  // namespace ddp
