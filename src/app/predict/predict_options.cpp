#include "app/predict/predict_options.h"

#include "core/error.h"

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

namespace ddp {
namespace {

constexpr int64_t kLongestSide = 16384;  // pixels
constexpr const char* kGroup = "Weights without metadata";

// The options for weights without metadata, as given.
struct Description {
  std::string model, mean, class_names;
  std::vector<double> std;
  int64_t classes = 0, resize = 0, crop = 0;
  int channels = 0;
};

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  errno = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(line);
  }
  require(file.eof() && !lines.empty(), Exit::data, "--class-names {}: {}", path,
          lines.empty() && errno == 0 ? "the file has no lines" : std::strerror(errno));
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
    require(CLI::detail::lexical_cast(part, number) && std::isfinite(number), Exit::usage,
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

void declare_description(CLI::App& app, Description& given) {
  const auto add = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->group(kGroup);
  };
  add("--model", given.model, "the network, by its name in training");
  add("--classes", given.classes, "number of classes")->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  add("--class-names", given.class_names, "file with the names of the classes, one a line");
  add("--val-crop-size", given.crop, "side, in pixels, of the images that the network reads")
      ->check(CLI::Range(int64_t{1}, kLongestSide));
  add("--val-resize-size", given.resize, "length of a picture's shorter side before the crop; default: 8/7 of the crop")
      ->check(CLI::Range(int64_t{1}, kLongestSide));
  add("--channels", given.channels, "channels of these images")->check(CLI::IsMember({1, 3}));
  add("--mean", given.mean, "mean of the pixels in training, from 0 to 1: numbers, none or imagenet");
  add("--std", given.std, "their standard deviation, for --mean with numbers")
      ->delimiter(',')
      ->check(CLI::Range(1e-6, 1e6));
}

}  // namespace

PredictOptions parse_predict_options(std::span<const std::string> arguments, std::optional<std::string>& answer) {
  PredictOptions options;
  Description given;
  CLI::App app(
      "Says what a trained network sees in pictures, one line a file. A broken file is a line with its error; the exit "
      "code is then 3.",
      "ddp_train predict");
  app.add_option("RUN_OR_MODEL", options.weights, "folder of a run, checkpoint, or safetensors file")->required();
  app.add_option(
         "FILES", options.files,
         "pictures; folders, for all pictures below them; - for a list of these on the standard input, one a line")
      ->required();
  const std::map<std::string, PredictionFormat> formats{
      {"text", PredictionFormat::text}, {"csv", PredictionFormat::csv}, {"jsonl", PredictionFormat::jsonl}};
  std::string format = "text";
  app.add_option("--format", format, "form of the lines")
      ->check(CLI::IsMember({"text", "csv", "jsonl"}))
      ->capture_default_str();
  app.add_option("--top-k", options.top_k, "number of classes in a line, the most probable first")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "threads that decode and compute; 0: one for each core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  declare_description(app, given);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success& e) {
    std::ostringstream text;
    app.exit(e, text, text);
    answer = text.str();
    return options;
  } catch (const CLI::ParseError& e) {
    fail(Exit::usage, "{}; ddp_train predict --help lists the options", e.what());
  }
  options.format = formats.at(format);
  for (const CLI::Option* option : app.get_options())
    if (option->get_group() == kGroup && option->count() > 0) options.given.push_back(option->get_name());
  const auto need = [&](const char* name, bool is_given) {
    if (!is_given) options.missing.emplace_back(name);
  };
  need("--model", !given.model.empty());
  need("--classes or --class-names", given.classes > 0 || !given.class_names.empty());
  need("--val-crop-size", given.crop > 0);
  need("--channels", given.channels > 0);
  need("--mean", !given.mean.empty());
  if (options.missing.empty()) options.info = info_of(given);
  return options;
}

}  // namespace ddp
