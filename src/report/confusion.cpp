#include "report/confusion.h"

#include "core/csv_rows.h"
#include "core/error.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <numeric>

namespace ddp::report {
namespace {

constexpr size_t kMostClasses = 2048;
constexpr int64_t kMostSamples = int64_t{1} << 40;

}  // namespace

int64_t Confusion::samples(size_t label) const {
  const auto row = counts.begin() + static_cast<int64_t>(label * classes.size());
  return std::accumulate(row, row + std::ssize(classes), int64_t{0});
}

Confusion parse_confusion(std::string_view text, const std::string& file) {
  CsvRows rows(file, text);
  Confusion confusion;
  if (rows.next(confusion.classes)) confusion.classes.erase(confusion.classes.begin());
  const size_t classes = confusion.classes.size();
  require(classes >= 1 && classes <= kMostClasses, Exit::data, "{} has {} classes in line 1; it may have 1 to {}", file,
          classes, kMostClasses);
  std::vector<std::string> row;
  for (size_t label = 0; label < classes; ++label) {
    require(rows.next(row), Exit::data, "{} ends before row {} of {}", file, label + 1, classes);
    require(row.size() == classes + 1, Exit::data, "{}: {} fields, and line 1 has {}", rows.at(), row.size(),
            classes + 1);
    for (size_t k = 1; k <= classes; ++k) {
      int64_t count = -1;
      const char* const end = row[k].data() + row[k].size();
      const auto read = std::from_chars(row[k].data(), end, count);
      require(read.ec == std::errc() && read.ptr == end && count >= 0 && count <= kMostSamples, Exit::data,
              "{}: field {} is no count", rows.at(), k + 1);
      confusion.counts.push_back(count);
    }
  }
  require(!rows.next(row), Exit::data, "{} has more than {} rows", file, classes);
  return confusion;
}

std::vector<ConfusedPair> worst_pairs(const Confusion& confusion, size_t most) {
  std::vector<ConfusedPair> pairs;
  for (size_t label = 0; label < confusion.classes.size(); ++label)
    for (size_t k = 0; k < confusion.classes.size(); ++k)
      if (const int64_t count = confusion.count(label, k); k != label && count > 0)
        pairs.push_back({.label = label, .prediction = k, .count = count});
  std::ranges::stable_sort(pairs, std::greater(), &ConfusedPair::count);
  if (pairs.size() > most) pairs.resize(most);
  return pairs;
}

}  // namespace ddp::report
