#include "app/inputs/label_weights.h"

#include "core/csv_rows.h"
#include "core/error.h"
#include "core/printable.h"
#include "data/unicode.h"
#include "ddp/hash.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>

namespace ddp {
namespace {

constexpr double kLeastWeight = 1e-6, kMostWeight = 1e6;

std::string class_text(size_t number, std::span<const std::string> names) {
  return number < names.size() ? printable(names[number]) : std::to_string(number);
}

template <class T>
std::optional<T> number_in(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A name comes before a number, which may be a name too.
size_t class_of(const std::string& text, std::span<const std::string> names, int classes, const CsvRows& rows) {
  const auto named = std::ranges::find(names, composed(text));
  if (named != names.end()) return static_cast<size_t>(named - names.begin());
  const auto number = number_in<int>(text);
  if (!number || *number < 0 || *number >= classes)
    fail(Exit::data, "{}: the data have no class \"{}\"; their classes are {}", rows.at(), shortened(text),
         names.empty() ? fmt::format("0 to {}", classes - 1) : first_names(names));
  return static_cast<size_t>(*number);
}

}  // namespace

std::vector<float> balanced_weights(const Dataset& train, std::span<const std::string> names) {
  std::vector<int64_t> counts(static_cast<size_t>(train.classes()));
  for (int64_t i = 0; i < train.size(); ++i) ++counts[static_cast<size_t>(train.label(i))];
  std::vector<float> weights;
  for (const int64_t count : counts) {
    require(count > 0, Exit::data,
            "--label-weights {}: class {} has no training sample; give the weights in a file, or train on more samples",
            kBalancedLabels, class_text(weights.size(), names));
    weights.push_back(static_cast<float>(static_cast<double>(train.size()) /
                                         (static_cast<double>(counts.size()) * static_cast<double>(count))));
  }
  return weights;
}

std::vector<float> parse_label_weights(const std::string& file, std::string_view text,
                                       std::span<const std::string> names, int classes) {
  const std::string name = printable(file);
  CsvRows rows(file, text);
  std::vector<std::string> fields;
  require(rows.next(fields) && fields == std::vector<std::string>{"class", "weight"}, Exit::data,
          "{}: its first line must be class,weight", name);
  std::vector<float> weights(static_cast<size_t>(classes));  // 0: not given yet
  while (rows.next(fields)) {
    if (fields.size() != 2)
      fail(Exit::data, "{}: has {} fields, not a class and its weight; put a name with a comma in quotes", rows.at(),
           fields.size());
    float& weight = weights[class_of(fields[0], names, classes, rows)];
    const auto number = number_in<double>(fields[1]);
    if (!number || !(*number >= kLeastWeight && *number <= kMostWeight))
      fail(Exit::data, "{}: \"{}\" is no weight: give a number from {:g} to {:g}", rows.at(), shortened(fields[1]),
           kLeastWeight, kMostWeight);
    if (weight != 0) fail(Exit::data, "{}: class {} stands twice; remove one line", rows.at(), shortened(fields[0]));
    weight = static_cast<float>(*number);
  }
  const auto missing = std::ranges::find(weights, 0.0f);
  require(missing == weights.end(), Exit::data, "{}: class {} has no weight; give each class a line", name,
          class_text(static_cast<size_t>(missing - weights.begin()), names));
  return weights;
}

std::string describe_weights(const std::string& option, std::span<const float> weights) {
  Hash hash;
  for (const float weight : weights) hash.add(std::bit_cast<uint32_t>(weight));
  const auto [least, most] = std::ranges::minmax_element(weights);
  return fmt::format("{:.4g} to {:.4g} ({}, {:016x})", *least, *most,
                     option == kBalancedLabels ? kBalancedLabels : "of a file", hash.value());
}

}  // namespace ddp
