#include "app/commands/show/show.h"

#include "app/commands/show/grid.h"
#include "app/commands/show/npy_file.h"
#include "app/commands/show/show_options.h"
#include "app/commands/show/training_input.h"
#include "app/inputs/load_data.h"
#include "app/run/begin_from.h"
#include "core/log.h"
#include "data/codec/png_writer.h"
#include "health/run_on_all_ranks.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace ddp {
namespace {

constexpr int64_t kImagesOfGrid = 64;
constexpr PixelScale kUnchangedPixels = {.scale = {1, 1, 1}, .shift = {}};  // as they are

// The files of the command. They are created before the data are read, so that a wrong name costs no time.
struct Files {
  explicit Files(const ShowOptions& options) {
    const std::string& batches = options.batches;
    if (!options.grid.empty()) grid.emplace(options.grid);
    if (batches.empty()) return;
    images.emplace(batches);
    labels_path = batches.substr(0, batches.size() - std::string_view(".npy").size()) + ".labels.npy";
    labels.emplace(labels_path);
  }
  void keep() {
    std::vector<NewFile*> files;
    if (grid) files.push_back(&*grid);
    if (images) files.insert(files.end(), {&images->file(), &labels->file()});
    NewFile::keep(files);
  }

  std::string labels_path;
  std::optional<NewFile> grid;
  std::optional<NpyFile> images, labels;
};

class Show {
 public:
  Show(const ShowOptions& options, const LoadedData& data, const PixelNormalization& pixels, const Signals& signals,
       const Log& log)
      : options_(options),
        data_(data),
        train_(*data.data.train),
        image_(train_.image_shape()),
        pixels_(pixels),
        signals_(signals),
        log_(log) {}

  // Returns false after a stop signal.
  bool write(Files& files) const { return (!files.grid || write_grid(*files.grid)) && write_batches(files); }

 private:
  DistributedSampler sampler(int64_t batch) const {
    return {train_.size(), batch, Order::shuffled, options_.training.seed, 0, {1.0}};
  }

  std::string name_of(int32_t label) const {
    return data_.class_names.empty() ? std::to_string(label) : data_.class_names[static_cast<size_t>(label)];
  }

  bool write_grid(NewFile& file) const {
    const int64_t count = std::min(kImagesOfGrid, train_.size());
    const DistributedSampler rows = sampler(Grid::kColumns);
    const int64_t first = (options_.epoch - 1) * rows.steps_per_epoch();
    TrainingInput input(data_, rows, first, first + (count + Grid::kColumns - 1) / Grid::kColumns,
                        options_.training.seed, kUnchangedPixels);
    Grid grid(count, image_);
    std::vector<uint8_t> pixels(static_cast<size_t>(image_.elements()));
    for (int64_t done = 0; done < count;) {
      if (signals_.stop_requested()) return false;
      const TrainingInput::Batch batch = input.next();
      for (int64_t i = 0; i < batch.size; ++i, ++done) {
        std::ranges::transform(batch.values.subspan(i * pixels.size(), pixels.size()), pixels.begin(),
                               [](float value) { return static_cast<uint8_t>(value); });
        grid.add(pixels, name_of(batch.labels[i]));
      }
    }
    file.write(encode_png(grid.width(), grid.height(), grid.rgb()));
    log_.info("{}: the first {} training pictures of epoch {}", options_.grid, count, options_.epoch);
    return true;
  }

  bool write_batches(Files& files) const {
    if (!files.images) return true;
    const DistributedSampler steps = sampler(options_.training.batch.size);
    const int64_t first = (options_.epoch - 1) * steps.steps_per_epoch(), end = first + options_.steps;
    int64_t samples = 0;
    for (int64_t step = first; step < end; ++step) samples += steps.global_batch_size(step % steps.steps_per_epoch());
    files.images->begin("<f4", std::array{samples, image_.c, image_.h, image_.w});
    files.labels->begin("<i8", std::array{samples});
    TrainingInput input(data_, steps, first, end, options_.training.seed, pixels_.scale);
    for (int64_t step = first; step < end; ++step) {
      if (signals_.stop_requested()) return false;
      append(input.next(), files);
    }
    log_.info("{}: {} steps from the start of epoch {}, f32, shape ({}, {}, {}, {}) in the order N, C, H, W",
              options_.batches, options_.steps, options_.epoch, samples, image_.c, image_.h, image_.w);
    log_.info("{}: their labels, int64", files.labels_path);
    return true;
  }

  void append(const TrainingInput::Batch& batch, Files& files) const {
    const auto elements = static_cast<size_t>(image_.elements());
    const auto planes = static_cast<size_t>(image_.c), pixels = elements / planes;
    std::vector<float> values(elements);  // of one image, CHW
    for (int64_t i = 0; i < batch.size; ++i) {
      const auto image = batch.values.subspan(i * elements, elements);
      for (size_t c = 0; c < planes; ++c)
        for (size_t k = 0; k < pixels; ++k) values[c * pixels + k] = image[k * planes + c];
      files.images->append<float>(values);
    }
    const std::vector<int64_t> labels(batch.labels.begin(), batch.labels.end());
    files.labels->append<int64_t>(labels);
  }

  const ShowOptions& options_;
  const LoadedData& data_;
  const Dataset& train_;
  const ImageShape image_;
  const PixelNormalization& pixels_;
  const Signals& signals_;
  const Log& log_;
};

}  // namespace

Exit show(std::span<const std::string> arguments, MpiSession& session, const Signals& signals, const Log& log) {
  std::optional<std::string> answer;
  const ShowOptions options = run_on_all_ranks(session, [&] {
    ShowOptions parsed = parse_show_options(arguments, answer);
    require(answer || session.size() == 1, Exit::usage, "show runs on one rank, not on {}: start it without mpirun",
            session.size());
    return parsed;
  });
  if (answer) {
    if (session.rank() == 0) write_output(stdout, *answer, "the output");
    return Exit::done;
  }
  std::optional<Files> files;
  run_on_all_ranks(session, [&] { files.emplace(options); });
  const Options training = with_inherited_input(options.training, session, log);
  const auto world = session.world(training.transport.allreduce);
  const LoadedData data = load_data(training.data, training.seed, session, *world, log);
  run_on_all_ranks(session, [&] {
    require(data.data.train->sequence_length() == 0, Exit::usage, "show draws images; the data set is tokens");
  });
  for (const std::string& note : data.notes) log.info("{}", note);
  const PixelNormalization pixels = measure_pixels(data, session, *world);
  if (const std::string input = data.input(); !input.empty()) log.info("input: {}", input);
  if (const std::string text = pixels.text(); !text.empty()) log.info("mean and standard deviation: {}", text);
  if (!pixels.hint.empty()) log.info("{}", pixels.hint);
  if (training.replica.mix.any())
    log.info("the pictures are as they are before --mixup-alpha or --cutmix-alpha mixes them");

  const bool done = run_on_all_ranks(session, [&] {
    const bool written = Show(options, data, pixels, signals, log).write(*files);
    if (written) files->keep();
    return written;
  });
  if (done) return Exit::done;
  log.warn("{}: show stops and writes nothing", signals.stop_signal());
  return Exit::stopped;
}

}  // namespace ddp
