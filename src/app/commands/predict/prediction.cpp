#include "app/commands/predict/prediction.h"

#include "core/csv_field.h"
#include "core/printable.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace ddp {
namespace {

using nlohmann::ordered_json;

std::string as_text(const Prediction& prediction) {
  std::string line = printable(prediction.path);
  if (!prediction.error.empty()) return fmt::format("{}  error: {}\n", line, printable(prediction.error));
  for (const auto& [name, probability] : prediction.classes)
    line += fmt::format("  {} {:.3f}", printable(name), probability);
  return line + "\n";
}

std::string as_csv(const Prediction& prediction, int count) {
  std::string line = csv_field(prediction.path) + "," + csv_field(prediction.error);
  for (const auto& [name, probability] : prediction.classes)
    line += fmt::format(",{},{}", csv_field(name), probability);
  for (auto k = std::ssize(prediction.classes); k < count; ++k) line += ",,";
  return line + "\n";
}

// The shortest number that stands for the float, as in the other formats.
double shortest(float value) { return std::strtod(fmt::format("{}", value).c_str(), nullptr); }

std::string as_json(const Prediction& prediction) {
  const auto dump = [&](auto&& text_of) {
    ordered_json line{{"path", text_of(prediction.path)}};
    if (!prediction.error.empty()) line["error"] = text_of(prediction.error);
    for (const auto& [name, probability] : prediction.classes)
      line["predictions"].push_back({{"class", text_of(name)}, {"probability", shortest(probability)}});
    return line.dump() + "\n";
  };
  try {
    return dump([](const std::string& text) { return text; });
  } catch (const ordered_json::exception&) {
    return dump([](const std::string& text) { return printable(text); });
  }
}

}  // namespace

std::vector<int64_t> most_probable(std::span<const float> probabilities, int count) {
  std::vector<int64_t> classes(probabilities.size());
  std::iota(classes.begin(), classes.end(), 0);
  const auto end = classes.begin() + std::min<int64_t>(count, std::ssize(classes));
  std::partial_sort(classes.begin(), end, classes.end(), [&](int64_t a, int64_t b) {
    return probabilities[a] != probabilities[b] ? probabilities[a] > probabilities[b] : a < b;
  });
  classes.erase(end, classes.end());
  return classes;
}

std::string prediction_header(PredictionFormat format, int count) {
  if (format != PredictionFormat::csv) return "";
  std::string line = "path,error";
  for (int k = 1; k <= count; ++k) line += fmt::format(",class{0},probability{0}", k);
  return line + "\n";
}

std::string prediction_line(PredictionFormat format, int count, const Prediction& prediction) {
  switch (format) {
    case PredictionFormat::csv: return as_csv(prediction, count);
    case PredictionFormat::jsonl: return as_json(prediction);
    case PredictionFormat::text: break;
  }
  return as_text(prediction);
}

}  // namespace ddp
