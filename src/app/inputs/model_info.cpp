#include "app/inputs/model_info.h"

#include "app/inputs/input_names.h"
#include "app/inputs/token_sizes.h"
#include "core/error.h"
#include "core/json_reader.h"
#include "core/printable.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace ddp {
namespace {

using nlohmann::json;
using Kind = TransformConfig::Kind;

constexpr const char* kEntry = "ddp_train";
constexpr int64_t kFormat = 1, kFormatWithGraph = 2;
constexpr int64_t kFormatOfTokens = 3;       // with or without a graph
constexpr int64_t kMostPixels = 16384;       // of a side, as for --train-crop-size
constexpr int64_t kMostBytes = 100'000'000;  // of the entry; a file's header has no more

// The transforms of validation.
Names<Kind> validation_names() {
  Names<Kind> names = kTransformNames;
  std::erase_if(names, [](const auto& name) { return name.second == Kind::rrc || name.second == Kind::resize_crop; });
  return names;
}

// Mean and standard deviation for people: rounded, one for each channel.
void add_mean_and_std(nlohmann::ordered_json& entry, const PixelScale& pixels, int64_t channels) {
  const auto rounded = [](double value) { return std::round(value * 1e6) / 1e6; };
  for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
    const double std = 1 / (255 * double{pixels.scale[c]});
    entry["mean"].push_back(rounded(-pixels.shift[c] * std));
    entry["std"].push_back(rounded(std));
  }
}

// Reads the entry. Each function throws if the value is not what it should be.
class Reader {
 public:
  Reader(const json& entry, const std::string& file) : entry_(entry), file_(file) {}

  [[noreturn]] void refuse(const char* key, const char* expected) const {
    fail(Exit::data, "{}: its metadata {} has {} {}, which must be {}", file_, kEntry,
         entry_.contains(key) ? "an invalid" : "no", key, expected);
  }

  int64_t number(const char* key, int64_t least, int64_t most, const char* expected) const {
    const json& value = at(key, expected);
    if (!is_number(value, least, most)) refuse(key, expected);
    return value.get<int64_t>();
  }

  std::string text(const char* key) const {
    constexpr const char* kExpected = "a text";
    const json& value = at(key, kExpected);
    if (!value.is_string()) refuse(key, kExpected);
    return value.get<std::string>();
  }

  // The network of a stranger may have any name, and an exported file has this name.
  std::string graph(const std::string& model) const {
    constexpr const char* kKey = "graph";
    std::string found = text(kKey);
    if (found.empty() || std::ssize(found) > kMostModelBytes) refuse(kKey, "a text of at most 1 MiB");
    if (model.empty() || model.find('/') != model.npos || model.size() > kLongestModelName)
      refuse("model", "the name of a file");
    return found;
  }

  uint64_t hash(const char* key) const {
    const std::string digits = text(key);
    const char* const end = digits.data() + digits.size();
    uint64_t value = 0;
    const auto [rest, error] = std::from_chars(digits.data(), end, value, 16);
    if (digits.size() != 16 || rest != end || error != std::errc()) refuse(key, "16 hexadecimal digits");
    return value;
  }

  template <class Value>
  Value one_of(const char* key, const Names<Value>& names) const {
    std::string expected;
    const std::string given = text(key);
    for (const auto& [name, value] : names) {
      if (given == name) return value;
      expected += fmt::format("{}{}", expected.empty() ? "" : ", ", name);
    }
    refuse(key, fmt::format("one of {}", expected).c_str());
  }

  ImageShape image() const {
    constexpr const char *kKey = "image", *kExpected = "height, width and channels";
    const json& value = at(kKey, kExpected);
    const bool fits = value.is_array() && value.size() == 3 && is_number(value[0], 1, kMostPixels) &&
                      is_number(value[1], 1, kMostPixels) && is_number(value[2], 1, 3) && value[2] != 2;
    if (!fits) refuse(kKey, kExpected);
    return {.h = value[0], .w = value[1], .c = value[2]};
  }

  std::vector<std::string> class_names(int64_t classes) const {
    constexpr const char *kKey = "class_names", *kExpected = "a name for each class";
    const json& value = at(kKey, kExpected);
    if (!value.is_array() || (!value.empty() && std::cmp_not_equal(value.size(), classes))) refuse(kKey, kExpected);
    for (const json& name : value)
      if (!name.is_string()) refuse(kKey, kExpected);
    return value;
  }

  std::array<float, 3> for_each_channel(const char* key, int64_t channels, std::array<float, 3> result) const {
    constexpr const char* kExpected = "a finite number for each channel";
    const json& value = at(key, kExpected);
    if (!value.is_array() || std::cmp_not_equal(value.size(), channels)) refuse(key, kExpected);
    for (size_t c = 0; c < value.size(); ++c) {
      if (!value[c].is_number() || !(std::abs(value[c].get<double>()) <= std::numeric_limits<float>::max()))
        refuse(key, kExpected);
      result[c] = static_cast<float>(value[c].get<double>());
    }
    return result;
  }

 private:
  const json& at(const char* key, const char* expected) const {
    const auto found = entry_.find(key);
    if (found == entry_.end()) refuse(key, expected);
    return *found;
  }
  static bool is_number(const json& value, int64_t least, int64_t most) {
    return value.is_number_integer() && value >= least && value <= most;
  }

  const json& entry_;
  const std::string& file_;
};

void add_image_input(nlohmann::ordered_json& entry, const ModelInfo& info) {
  const auto channels = static_cast<size_t>(info.image.c);
  const PixelScale& pixels = info.pixel_scale;
  entry["transform"] = name_in(validation_names(), info.kind);
  entry["resize"] = info.resize;
  entry["interpolation"] = name_in(kInterpolationNames, info.interpolation);
  entry["exif"] = name_in(kExifNames, info.exif);
  entry["alpha"] = name_in(kAlphaNames, info.alpha);
  entry["scale"] = std::vector(pixels.scale.begin(), pixels.scale.begin() + channels);
  entry["shift"] = std::vector(pixels.shift.begin(), pixels.shift.begin() + channels);
  add_mean_and_std(entry, pixels, info.image.c);
}

void read_image_input(const Reader& reader, ModelInfo& info) {
  info.kind = reader.one_of("transform", validation_names());
  const bool resized = info.kind == Kind::center;
  info.resize = reader.number("resize", resized ? std::max(info.image.h, info.image.w) : 0, 2 * kMostPixels,
                              "a length in pixels, at least the sides of the image");
  info.interpolation = reader.one_of("interpolation", kInterpolationNames);
  info.exif = reader.one_of("exif", kExifNames);
  info.alpha = reader.one_of("alpha", kAlphaNames);
  info.pixel_scale.scale = reader.for_each_channel("scale", info.image.c, info.pixel_scale.scale);
  info.pixel_scale.shift = reader.for_each_channel("shift", info.image.c, info.pixel_scale.shift);
}

int64_t format_of(bool tokens, bool graph) {
  if (tokens) return kFormatOfTokens;
  return graph ? kFormatWithGraph : kFormat;
}

}  // namespace

std::string stored_name(const std::string& text) {
  try {
    (void)json(text).dump();
    return text;
  } catch (const json::exception&) {
    return printable(text);
  }
}

std::string ModelInfo::class_name(int64_t k) const {
  return class_names.empty() ? fmt::format("{}", k) : class_names.at(static_cast<size_t>(k));
}

Metadata ModelInfo::to_metadata() const {
  DDP_EXPECT(class_names.empty() || std::cmp_equal(class_names.size(), classes));
  DDP_EXPECT(image.c == 1 || image.c == 3);
  nlohmann::ordered_json entry{{"format", format_of(reads_tokens(), !graph.empty())}, {"model", model}};
  if (reads_tokens())
    entry["sequence_length"] = sequence_length;
  else
    entry["image"] = {image.h, image.w, image.c};
  if (!graph.empty()) entry["graph"] = graph;
  entry["classes"] = classes;
  entry["class_names"] = json::array();
  for (const std::string& name : class_names) entry["class_names"].push_back(stored_name(name));
  if (!reads_tokens()) add_image_input(entry, *this);
  if (vocabulary_hash) entry["vocabulary"] = fmt::format("{:016x}", *vocabulary_hash);
  if (precision) entry["precision"] = name_in(kPrecisionNames, *precision);
  return {{kEntry, entry.dump()}, {"model", model}, {"classes", fmt::format("{}", classes)}};
}

std::optional<ModelInfo> model_info_in(const Metadata& metadata, const std::string& file) {
  const auto found = metadata.find(kEntry);
  if (found == metadata.end()) return std::nullopt;
  const json entry = read_json(found->second, fmt::format("{}: its metadata {}", file, kEntry),
                               {.bytes = kMostBytes, .values = 2 * kMostVocabulary});
  require(entry.is_object(), Exit::data, "{}: its metadata {} is not a JSON object", file, kEntry);
  const Reader reader(entry, file);
  const int64_t format = reader.number("format", 1, INT64_MAX, "a number");
  const bool tokens = entry.contains("sequence_length");
  require(format == format_of(tokens, entry.contains("graph")), Exit::data,
          "{}: its metadata {} has format {}; this program reads formats up to {}: use a newer one", file, kEntry,
          format, kFormatOfTokens);

  ModelInfo info;
  info.model = printable(reader.text("model"));
  if (entry.contains("graph")) info.graph = reader.graph(info.model);
  if (tokens) {
    info.sequence_length = reader.number("sequence_length", 1, kLongestSequence, "a number of tokens");
    info.image = {info.sequence_length, 1, 1};
    if (entry.contains("vocabulary")) info.vocabulary_hash = reader.hash("vocabulary");
  } else {
    info.image = reader.image();
  }
  info.classes = reader.number("classes", 1, kMostVocabulary, "a number above 0");
  info.class_names = reader.class_names(info.classes);
  if (!tokens) read_image_input(reader, info);
  if (entry.contains("precision")) info.precision = reader.one_of("precision", kPrecisionNames);
  return info;
}

PixelScale pixel_scale_of(const std::vector<double>& mean, const std::vector<double>& std) {
  DDP_EXPECT(!mean.empty() && !std.empty());
  PixelScale pixels;
  for (size_t c = 0; c < pixels.scale.size(); ++c) {
    const double m = mean[mean.size() == 1 ? 0 : c], s = std[std.size() == 1 ? 0 : c];
    pixels.scale[c] = static_cast<float>(1 / (255 * s));
    pixels.shift[c] = static_cast<float>(-m / s);
  }
  return pixels;
}

}  // namespace ddp
