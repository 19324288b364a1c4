#include "app/run/class_report.h"

#include "core/csv_field.h"
#include "core/printable.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>
#include <vector>

namespace ddp {
namespace {

constexpr size_t kMostLines = 20, kWorst = 10;
constexpr size_t kWidest = 40;  // characters of a name in the table

using nlohmann::ordered_json;

ordered_json number(const std::optional<double>& value) { return value ? ordered_json(*value) : ordered_json(); }

std::string cell(const std::optional<double>& value) { return value ? fmt::format("{:.4f}", *value) : "-"; }

}  // namespace

void add_class_figures(ordered_json& report, const ClassCounts& counts, const ModelInfo& model) {
  if (const auto top5 = counts.top5_accuracy()) report["top5_accuracy"] = *top5;
  report["macro_f1"] = counts.macro_f1();
  ordered_json& list = report["per_class"] = ordered_json::array();
  for (int64_t k = 0; k < counts.classes(); ++k) {
    const ClassFigures figures = counts.figures(k);
    list.push_back({{"class", stored_name(model.class_name(k))},
                    {"count", figures.samples},
                    {"precision", number(figures.precision)},
                    {"recall", number(figures.recall)},
                    {"f1", number(figures.f1)}});
  }
}

std::string confusion_csv(const ClassCounts& counts, const ModelInfo& model) {
  std::string text = "class";
  for (int64_t k = 0; k < counts.classes(); ++k) text += "," + csv_field(stored_name(model.class_name(k)));
  text += "\n";
  for (int64_t label = 0; label < counts.classes(); ++label) {
    text += csv_field(stored_name(model.class_name(label)));
    for (int64_t k = 0; k < counts.classes(); ++k) text += fmt::format(",{}", counts.count(label, k));
    text += "\n";
  }
  return text;
}

std::string class_table(const ClassCounts& counts, const ModelInfo& model) {
  std::vector<int64_t> shown;
  for (int64_t k = 0; k < counts.classes(); ++k)
    if (counts.figures(k).f1) shown.push_back(k);
  std::string text;
  if (shown.size() > kMostLines) {
    text = fmt::format("the {} of {} classes with the lowest F1:\n", kWorst, shown.size());
    std::ranges::stable_sort(shown, {}, [&](int64_t k) { return *counts.figures(k).f1; });
    shown.resize(kWorst);
  }
  size_t width = 5;
  std::vector<std::string> names;
  for (const int64_t k : shown) {
    std::string name = printable(model.class_name(k));
    if (name.size() > kWidest) name = printable(name.substr(0, kWidest - 3)) + "...";
    width = std::max(width, name.size());
    names.push_back(std::move(name));
  }
  text += fmt::format("{:<{}}  {:>7}  {:>9}  {:>6}  {:>6}", "class", width, "count", "precision", "recall", "F1");
  for (size_t i = 0; i < shown.size(); ++i) {
    const ClassFigures figures = counts.figures(shown[i]);
    text += fmt::format("\n{:<{}}  {:>7}  {:>9}  {:>6}  {:>6}", names[i], width, figures.samples,
                        cell(figures.precision), cell(figures.recall), cell(figures.f1));
  }
  return text;
}

}  // namespace ddp
