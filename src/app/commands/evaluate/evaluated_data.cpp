#include "app/commands/evaluate/evaluated_data.h"

#include "app/inputs/check_all_pictures.h"
#include "app/inputs/vocabulary_of_run.h"
#include "core/error.h"
#include "core/printable.h"
#include "data/relabelled.h"
#include "data/unicode.h"
#include "health/run_on_all_ranks.h"

#include <unordered_map>
#include <utility>

namespace ddp {

std::vector<int32_t> labels_of_network(const Dataset& data, const std::vector<std::string>& names,
                                       const ModelInfo& network, const std::string& meant) {
  std::vector<bool> used(data.classes());
  for (int64_t i = 0; i < data.size(); ++i) used[data.label(i)] = true;
  std::unordered_map<std::string, int32_t> known;
  std::vector<std::string> known_names;
  for (int64_t k = 0; k < network.classes; ++k) {
    const std::string name = composed(stored_name(network.class_name(k)));
    known_names.push_back(name);
    require(known.emplace(name, static_cast<int32_t>(k)).second, Exit::data, "the network has two classes {}", name);
  }

  std::vector<int32_t> labels;
  std::vector<std::string> unknown;
  for (int k = 0; k < data.classes(); ++k) {
    const std::string name = names.empty() ? fmt::format("{}", k) : names.at(k);
    const auto found = known.find(composed(stored_name(name)));
    labels.push_back(found != known.end() && used[k] ? found->second : -1);
    if (found == known.end() && used[k]) unknown.push_back(name);
  }
  require(unknown.empty(), Exit::data,
          "the data have classes that the network lacks: {}; classes are matched by name{}{}", first_names(unknown),
          case_differences(unknown, known_names), meant);
  return labels;
}

namespace {

EvaluatedData evaluated_tokens(LoadedData loaded, std::unique_ptr<Dataset> data, const ModelInfo& network) {
  const auto hash = vocabulary_hash(loaded);
  require(!hash || !network.vocabulary_hash || *hash == *network.vocabulary_hash, Exit::data,
          "the vocabulary of the data has the hash {:016x}, and that of the network {:016x}: the same number means "
          "another token; evaluate on data with the vocabulary of the training",
          hash.value_or(0), network.vocabulary_hash.value_or(0));
  return {.data = std::move(data),
          .kind = std::move(loaded.kind),
          .workers = loaded.workers,
          .notes = std::move(loaded.notes),
          .listings = {},
          .exclusions = nullptr};
}

}  // namespace

EvaluatedData load_evaluated_data(const DataConfig& given, uint64_t seed, const ModelInfo& network, MpiSession& session,
                                  Communicator& world, const Log& log, const Reading& reading) {
  DataConfig config = given;
  if (network.reads_tokens()) {
    config.evaluated = EvaluatedInput{.tokens = true};
    config.sequence_length = network.sequence_length;
    config.vocabulary_size = network.classes;
  } else {
    config.evaluated = EvaluatedInput{.transform = network.transform(), .decode = network.decode()};
    config.input.exif = network.exif;
    config.input.pixels.kind = PixelStatistics::Kind::none;
  }
  LoadedData loaded = load_data(config, seed, session, world, log, reading);
  return run_on_all_ranks(session, [&] {
    std::unique_ptr<Dataset> data = std::move(loaded.data.test ? loaded.data.test : loaded.data.train);
    if (network.reads_tokens()) return evaluated_tokens(std::move(loaded), std::move(data), network);
    const ImageShape image = data->image_shape(), read = network.image;
    require(image == read, Exit::model,
            "the network reads images of {} x {} x {}, and the images of {} have {} x {} x {}", read.w, read.h, read.c,
            loaded.kind, image.w, image.h, image.c);
    loaded.listings.erase(kKeptCheck);  // the data's folder has it
    std::vector<int32_t> labels = labels_of_network(*data, loaded.class_names, network, loaded.meant);
    return EvaluatedData{
        .data = std::make_unique<Relabelled>(std::move(data), std::move(labels), static_cast<int>(network.classes)),
        .kind = std::move(loaded.kind),
        .workers = loaded.workers,
        .notes = std::move(loaded.notes),
        .listings = std::move(loaded.listings),
        .exclusions = loaded.excludes ? std::move(loaded.test_exclusions) : nullptr};
  });
}

}  // namespace ddp
