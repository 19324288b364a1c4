#include "app/inputs/load_data.h"

#include "app/inputs/input_names.h"
#include "app/inputs/load_pictures.h"
#include "app/inputs/load_tokens.h"
#include "app/inputs/model_info.h"
#include "app/inputs/options_fit_data.h"
#include "app/inputs/vocabulary_of_run.h"
#include "app/machine/threads.h"
#include "comm/broadcast_host.h"
#include "core/control_group.h"
#include "data/augment/augmented_dataset.h"
#include "data/catalog.h"
#include "data/cifar.h"
#include "data/detect.h"
#include "data/subset.h"
#include "data/text/vocabulary.h"
#include "ddp/hash.h"
#include "ddp/replica_check.h"
#include "health/run_on_all_ranks.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <system_error>
#include <utility>

namespace ddp {
namespace {

using Statistics = PixelStatistics::Kind;

uint64_t fingerprint_of(const Dataset& data) {
  constexpr int64_t kImages = 256;
  const auto& [h, w, c] = data.image_shape();
  Hash hash;
  for (const int64_t number : {data.size(), h, w, c}) hash.add(static_cast<uint64_t>(number));
  if (data.sequence_length() > 0) hash.add(static_cast<uint64_t>(data.classes()));
  for (int64_t i = 0; i < data.size(); ++i) hash.add(static_cast<uint64_t>(data.label(i)));
  std::vector<uint8_t> pixels(data.sample_bytes());
  for (int64_t i = 0; i < data.size(); i += std::max<int64_t>(1, data.size() / kImages)) {
    data.read({i}, pixels);
    for (const uint8_t pixel : pixels) hash.add(pixel);
  }
  return hash.value();
}

std::string kind_of(const DataConfig& config) {
  if (config.name != "auto") return config.name;
  if (config.path.empty()) return "fashion-mnist";
  return config.labels.empty() ? detect_dataset(config.path) : "csv";
}

// The data set in memory. Throws Error: Exit::usage or Exit::data.
LoadedData load_images(const DataConfig& config, const std::string& kind, int64_t most_bytes) {
  LoadedData loaded;
  loaded.kind = kind;
  if (is_cifar(kind)) {
    Cifar cifar = read_cifar(config.path, kind == "cifar100", config.coarse_labels);
    loaded.data = std::move(cifar.data);
    loaded.class_names = std::move(cifar.class_names);
    loaded.notes = std::move(cifar.notes);
  } else {
    loaded.data = open_datasets(kind, config.path, most_bytes);
  }
  const InputConfig& input = config.input;
  loaded.augmentation.hflip = static_cast<float>(input.hflip.value_or(0));
  loaded.pixels = input.pixels;
  if (loaded.pixels.kind == Statistics::automatic)
    loaded.pixels.kind = is_cifar(kind) ? Statistics::cifar10 : Statistics::none;
  return loaded;
}

// Notes what it averages.
void set_statistics(PixelStatistics& pixels, int64_t channels, std::vector<std::string>& notes) {
  if (pixels.kind == Statistics::automatic) pixels.kind = Statistics::measured;
  if (pixels.kind == Statistics::imagenet) {
    pixels = {Statistics::given, kImageNetMean, kImageNetStd};
  } else if (pixels.kind == Statistics::cifar10) {
    pixels = {Statistics::given, {0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}};
  }
  if (pixels.kind != Statistics::given) return;
  for (const auto& [name, values] : {std::pair("mean", &pixels.mean), {"std", &pixels.std}}) {
    if (std::cmp_greater(values->size(), channels)) {
      const double mean = std::accumulate(values->begin(), values->end(), 0.0) / static_cast<double>(values->size());
      *values = {std::round(mean * 1e6) / 1e6};
      notes.push_back(fmt::format("{} {} is the average of three channels, for grey images", name, values->front()));
    }
    values->resize(static_cast<size_t>(channels), values->front());
  }
}

// Replaces the training data by augmented ones. Data in memory get threads of their own for it. Collective.
void augment(const DataConfig& config, uint64_t seed, MpiSession& session, Communicator& world, LoadedData& loaded) {
  const InputConfig& input = config.input;
  if (input.auto_augment == AutoAugmentConfig::Policy::none) return;
  loaded.auto_augment = {.policy = input.auto_augment,
                         .ra_magnitude = input.ra_magnitude,
                         .interpolation = input.interpolation,
                         .seed = seed};
  if (!has_pictures(loaded.kind)) loaded.workers = choose_workers(config.workers, world, session.host());
  run_on_all_ranks(session, [&] {
    loaded.data.train = std::make_unique<AugmentedDataset>(std::move(loaded.data.train), loaded.auto_augment);
  });
}

// The copy in the folder of a resumed run, where a rank has no file of --vocabulary; empty: there is none. Collective.
std::string kept_vocabulary(const DataConfig& config, const ResumedPictures& resumed, MpiSession& session,
                            Communicator& world) {
  std::error_code unknown;
  if (!world.any(config.vocabulary != "bytes" && !std::filesystem::exists(config.vocabulary, unknown) && !unknown))
    return "";
  std::string text = run_on_all_ranks(session, [&] {
    std::error_code error;
    const auto file = resumed.run_folder / kVocabularyFile;
    const bool exists = !resumed.run_folder.empty() && std::filesystem::exists(file, error);
    return exists ? Vocabulary::read(file).text() : std::string();
  });
  broadcast_host(world, text);
  return text;
}

}  // namespace

std::string describe_samples(const Dataset& data) {
  const auto& [h, w, c] = data.image_shape();
  return data.sequence_length() > 0
             ? fmt::format("windows of {} tokens of a vocabulary of {}", data.sequence_length(), data.classes())
             : fmt::format("images of {} x {} x {}", h, w, c);
}

bool reads_pictures(const DataConfig& config) { return has_pictures(kind_of(config)); }

std::string LoadedData::input() const {
  std::string text = transforms;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (auto_augment.operations() > 0) {
    const bool ra = auto_augment.policy == AutoAugmentConfig::Policy::ra;
    add(fmt::format("auto-augment {}{} {}", name_in(kAutoAugmentNames, auto_augment.policy),
                    ra ? fmt::format(" {}", auto_augment.ra_magnitude) : "",
                    name_in(kInterpolationNames, auto_augment.interpolation)));
  }
  if (augmentation.crop_padding > 0)
    add(fmt::format("crop padding {} {}", augmentation.crop_padding, augmentation.reflect ? "reflect" : "constant"));
  if (augmentation.alternate_flip)
    add("alternate flips");
  else if (augmentation.hflip > 0)
    add(fmt::format("flips {:g}", augmentation.hflip));
  if (augmentation.erase > 0) add(fmt::format("erases {:g}", augmentation.erase));
  return text;
}

LoadedData load_data(const DataConfig& config, uint64_t seed, MpiSession& session, Communicator& world, const Log& log,
                     const Reading& reading, const ResumedPictures& resumed) {
  const std::string kind = run_on_all_ranks(session, [&] {
    reading.progress();
    std::string found = kind_of(config);
    require_options_fit(config, found);
    reading.done();
    return found;
  });
  const std::string vocabulary =
      has_tokens(kind) && !config.vocabulary.empty() ? kept_vocabulary(config, resumed, session, world) : "";
  LoadedData loaded = has_pictures(kind)
                          ? load_pictures(config, kind, seed, session, world, log, reading, resumed)
                          : run_on_all_ranks(session, [&] {
                              reading.progress();
                              LoadedData data = has_tokens(kind)
                                                    ? load_tokens(config, vocabulary)
                                                    : load_images(config, kind, memory_limit() / session.local_size());
                              reading.done();
                              return data;
                            });
  run_on_all_ranks(session, [&] {
    Dataset& train = *loaded.data.train;
    const ImageShape image = train.image_shape();
    Augmentation& augmentation = loaded.augmentation;
    augmentation.alternate_flip = config.input.alternate_flip;
    augmentation.crop_padding = config.input.crop_padding;
    augmentation.reflect = config.input.reflect;
    augmentation.erase = static_cast<float>(config.input.random_erase);
    require(augmentation.fits(image), Exit::usage,
            "--crop-padding {} with --padding-mode reflect needs images of more than {} rows and columns; they have {} "
            "and {}",
            augmentation.crop_padding, augmentation.crop_padding, image.h, image.w);
    set_statistics(loaded.pixels, image.c, loaded.notes);
    if (config.train_samples > 0)
      loaded.data.train = std::make_unique<Subset>(std::move(loaded.data.train), config.train_samples);
  });
  if (!has_pictures(kind)) {
    loaded.fingerprint = run_on_all_ranks(session, [&] {
      const Datasets& data = loaded.data;
      return loaded.fingerprint ^ fingerprint_of(*data.train) ^ (data.test ? fingerprint_of(*data.test) << 1 : 0);
    });
  }
  check_same_on_all_ranks(loaded.fingerprint, "data set", world);
  augment(config, seed, session, world, loaded);
  return loaded;
}

}  // namespace ddp
