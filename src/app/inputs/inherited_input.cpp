#include "app/inputs/inherited_input.h"

#include "app/inputs/input_names.h"
#include "core/error.h"
#include "core/printable.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

namespace ddp {
namespace {

using Kind = TransformConfig::Kind;

bool same_scale(const PixelScale& a, const PixelScale& b, int64_t channels) {
  const auto equal = [&](const auto& x, const auto& y) {
    return std::ranges::equal(std::span(x).first(channels), std::span(y).first(channels));
  };
  return equal(a.scale, b.scale) && equal(a.shift, b.shift);
}

// The mean and the standard deviation of a scale and a shift, with six digits where these give the same bits.
std::pair<std::vector<double>, std::vector<double>> statistics_of(const PixelScale& pixels, int64_t channels) {
  std::vector<double> mean, std, short_mean, short_std;
  const auto rounded = [](double value) { return std::round(value * 1e6) / 1e6; };
  for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
    std.push_back(1 / (255 * double{pixels.scale[c]}));
    mean.push_back(0 - pixels.shift[c] * std.back());
    short_std.push_back(rounded(std.back()));
    short_mean.push_back(rounded(mean.back()));
  }
  if (same_scale(pixel_scale_of(short_mean, short_std), pixels, channels)) return {short_mean, short_std};
  return {mean, std};
}

}  // namespace

std::map<std::string, std::string> inherited_input(const ModelInfo& info, bool pictures,
                                                   const std::map<std::string, std::string>& given,
                                                   const std::string& file) {
  std::map<std::string, std::string> values;
  const auto is_given = [&](std::initializer_list<const char*> names) {
    return std::ranges::any_of(names, [&](const char* name) { return given.contains(name); });
  };
  if (!is_given({"--mean", "--std"})) {
    if (same_scale(info.pixel_scale, {}, info.image.c)) {
      values["--mean"] = "none";
    } else {
      const auto [mean, std] = statistics_of(info.pixel_scale, info.image.c);
      const bool of_pixels = std::ranges::all_of(mean, [](double m) { return m >= 0 && m <= 1; }) &&
                             std::ranges::all_of(std, [](double s) { return s >= 1e-6 && s <= 1; });
      require(of_pixels, Exit::data,
              "{}: its metadata give the mean {} and the standard deviation {}, which no pixels from 0 to 1 have; give "
              "--mean and --std",
              file, fmt::join(mean, ","), fmt::join(std, ","));
      values["--mean"] = fmt::format("{}", fmt::join(mean, ","));
      values["--std"] = fmt::format("{}", fmt::join(std, ","));
    }
  }
  if (!pictures || info.kind == Kind::none || info.image.h != info.image.w) return values;
  if (is_given({"--train-transform", "--train-crop-size", "--val-crop-size", "--val-resize-size"})) return values;
  const std::string side = fmt::format("{}", info.image.h);
  if (info.kind == Kind::stretch) {
    values["--train-transform"] = name_in(kTransformNames, Kind::stretch);
    values["--train-crop-size"] = side;
  } else {
    values["--val-crop-size"] = side;
    values["--val-resize-size"] = fmt::format("{}", info.resize);
  }
  if (!is_given({"--interpolation"})) values["--interpolation"] = name_in(kInterpolationNames, info.interpolation);
  return values;
}

std::string compare_classes(const ModelInfo& info, std::span<const std::string> names, const std::string& file) {
  if (info.class_names.empty() || info.class_names.size() != names.size()) return "";
  std::map<std::string, size_t> in_file;
  for (size_t k = 0; k < names.size(); ++k) in_file.emplace(info.class_names[k], k);
  std::optional<size_t> moved, first;
  size_t others = 0;
  for (size_t k = 0; k < names.size(); ++k) {
    const std::string name = stored_name(names[k]);
    if (name == info.class_names[k]) continue;
    if (!first) first = k;
    if (!in_file.contains(name))
      ++others;
    else if (!moved)
      moved = k;
  }
  if (!first) return "";
  const auto difference = [&](size_t k) {
    return fmt::format("class {} is {} there and {} here", k, shortened(info.class_names[k]), shortened(names[k]));
  };
  constexpr const char* kToDo = "add --new-head, which begins the last layer new";
  require(!moved, Exit::model, "{}: its network has classes of the data under other numbers: {}; {}", file,
          difference(moved.value_or(0)), kToDo);
  require(others < names.size(), Exit::model,
          "{}: its last layer fits by accident, because it has as many classes as the data, but none of these: {}; {}",
          file, difference(*first), kToDo);
  return fmt::format(
      "{}: {} of its {} classes have other names: {}; the last layer goes on with its weights, unless "
      "--new-head begins it new",
      file, others, names.size(), difference(*first));
}

std::string compare_vocabularies(const ModelInfo& info, std::optional<uint64_t> hash, const std::string& file) {
  if (!info.vocabulary_hash || !hash || *info.vocabulary_hash == *hash) return "";
  return fmt::format(
      "{}: its vocabulary has the hash {:016x}, and that of this run {:016x}: the same number means another token",
      file, *info.vocabulary_hash, *hash);
}

}  // namespace ddp
