#include "app/commands/predict/description_options.h"

#include "app/inputs/token_sizes.h"
#include "core/error.h"
#include "core/read_file.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <sstream>
#include <utility>

namespace ddp {
namespace {

constexpr int64_t kLongestSide = 16384;  // pixels
constexpr const char* kGroup = "Weights without metadata";

using Description = DescriptionOptions::Description;

std::vector<std::string> lines_of(const std::string& path) {
  constexpr int64_t kMostBytes = 100'000'000;
  std::istringstream text(read_whole_file(path, kMostBytes));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(line);
  }
  require(!lines.empty(), Exit::data, "--class-names {}: the file has no lines", path);
  return lines;
}

PixelScale pixel_scale_in(const Description& given) {
  const bool named = given.mean == "none" || given.mean == "imagenet";
  require(named == given.std.empty(), Exit::usage, "--std {}", named ? "needs --mean with numbers" : "is missing");
  if (given.mean == "none") return {};
  if (given.mean == "imagenet") return pixel_scale_of(kImageNetMean, kImageNetStd);
  std::vector<double> mean;
  for (const std::string& part : CLI::detail::split(given.mean, ',')) {
    double number = 0;
    require(CLI::detail::lexical_cast(part, number) && std::abs(number) <= 1e6, Exit::usage,
            "--mean {}: give none, imagenet, or numbers such as 0.49,0.48,0.45", given.mean);
    mean.push_back(number);
  }
  for (const std::vector<double>* numbers : {&std::as_const(mean), &given.std})
    require(numbers->size() == 1 || std::cmp_equal(numbers->size(), given.channels), Exit::usage,
            "--mean and --std: give one number, or one for each of the {} channels", given.channels);
  return pixel_scale_of(mean, given.std);
}

ModelInfo info_of(const Description& given) {
  ModelInfo info{.model = given.model, .image = {given.crop, given.crop, given.channels}, .classes = given.classes};
  if (!given.class_names.empty()) {
    info.class_names = lines_of(given.class_names);
    const auto names = std::ssize(info.class_names);
    require(given.classes == 0 || given.classes == names, Exit::usage, "--class-names {} has {} names, --classes is {}",
            given.class_names, names, given.classes);
    info.classes = names;
  }
  info.resize = given.resize > 0 ? given.resize : (given.crop * 8 + 6) / 7;
  require(info.resize >= given.crop, Exit::usage, "--val-resize-size must be at least --val-crop-size, which is {}",
          given.crop);
  info.pixel_scale = pixel_scale_in(given);
  return info;
}

}  // namespace

void DescriptionOptions::declare(CLI::App& app) {
  const auto add = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->group(kGroup);
  };
  add("--model", given_.model, "the network, by its name in training, or the file FILE.toml that describes it");
  add("--classes", given_.classes, "number of classes")->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  add("--class-names", given_.class_names, "file with the names of the classes, one a line");
  add("--val-crop-size", given_.crop, "side, in pixels, of the images that the network reads")
      ->check(CLI::Range(int64_t{1}, kLongestSide));
  add("--val-resize-size", given_.resize,
      "length of a picture's shorter side before the crop; default: 8/7 of the crop")
      ->check(CLI::Range(int64_t{1}, kLongestSide));
  add("--channels", given_.channels, "channels of these images")->check(CLI::IsMember({1, 3}));
  add("--mean", given_.mean, "mean of the pixels in training, from 0 to 1: numbers, none or imagenet");
  add("--std", given_.std, "their standard deviation, for --mean with numbers")
      ->delimiter(',')
      ->check(CLI::Range(1e-6, 1e6));
  add("--sequence-length", given_.sequence_length,
      "of a network that reads tokens: how many it reads; default: as many as it has positions, else 1024")
      ->check(CLI::Range(int64_t{1}, kLongestSequence));
  add("--vocab-size", given_.vocabulary_size, "of a network that reads tokens: how many there are; default: 50257")
      ->check(CLI::Range(int64_t{1}, kMostVocabulary));
}

DescribedNetwork DescriptionOptions::read(const CLI::App& app) const {
  DescribedNetwork network;
  for (const CLI::Option* option : app.get_options())
    if (option->get_group() == kGroup && option->count() > 0) network.given.push_back(option->get_name());
  const auto need = [&](const char* name, bool is_given) {
    if (!is_given) network.missing.emplace_back(name);
  };
  need("--model", !given_.model.empty());
  need("--classes or --class-names", given_.classes > 0 || !given_.class_names.empty());
  need("--val-crop-size", given_.crop > 0);
  need("--channels", given_.channels > 0);
  need("--mean", !given_.mean.empty());
  if (network.missing.empty()) network.info = info_of(given_);
  network.info.model = given_.model;
  network.sequence_length = given_.sequence_length;
  network.vocabulary_size = given_.vocabulary_size;
  return network;
}

}  // namespace ddp
