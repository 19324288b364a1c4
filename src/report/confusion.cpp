#include "report/confusion.h"

#include "core/error.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <numeric>

namespace ddp::report {
namespace {

constexpr size_t kMostClasses = 2048;
constexpr int64_t kMostSamples = int64_t{1} << 40;

// Reads one record of RFC 4180 after another.
class CsvRecords {
 public:
  explicit CsvRecords(std::string_view text) : rest_(text) {}

  bool ended() const { return rest_.empty(); }
  int64_t line() const { return line_; }  // of the last record's first line, from 1

  std::vector<std::string> next() {
    line_ = next_line_;
    std::vector<std::string> fields;
    do fields.push_back(field());
    while (skip(','));
    skip('\r');
    skip('\n');
    ++next_line_;
    return fields;
  }

 private:
  bool skip(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::string field() {
    if (!skip('"')) {
      const std::string_view plain = rest_.substr(0, rest_.find_first_of(",\r\n"));
      rest_.remove_prefix(plain.size());
      return std::string(plain);
    }
    std::string text;
    while (!rest_.empty()) {
      const std::string_view part = rest_.substr(0, rest_.find('"'));
      next_line_ += std::ranges::count(part, '\n');
      text += part;
      rest_.remove_prefix(part.size());
      skip('"');
      if (!skip('"')) break;
      text += '"';
    }
    return text;
  }

  std::string_view rest_;
  int64_t line_ = 0, next_line_ = 1;
};

}  // namespace

int64_t Confusion::samples(size_t label) const {
  const auto row = counts.begin() + static_cast<int64_t>(label * classes.size());
  return std::accumulate(row, row + std::ssize(classes), int64_t{0});
}

Confusion parse_confusion(std::string_view text, const std::string& file) {
  CsvRecords records(text);
  Confusion confusion{.classes = records.next(), .counts = {}};
  confusion.classes.erase(confusion.classes.begin());
  const size_t classes = confusion.classes.size();
  require(classes >= 1 && classes <= kMostClasses, Exit::data, "{} has {} classes in line 1; it may have 1 to {}", file,
          classes, kMostClasses);
  for (size_t label = 0; label < classes; ++label) {
    require(!records.ended(), Exit::data, "{} ends before row {} of {}", file, label + 1, classes);
    const std::vector<std::string> row = records.next();
    require(row.size() == classes + 1, Exit::data, "{}, line {}: {} fields, and line 1 has {}", file, records.line(),
            row.size(), classes + 1);
    for (size_t k = 1; k <= classes; ++k) {
      int64_t count = -1;
      const char* const end = row[k].data() + row[k].size();
      const auto read = std::from_chars(row[k].data(), end, count);
      require(read.ec == std::errc() && read.ptr == end && count >= 0 && count <= kMostSamples, Exit::data,
              "{}, line {}: field {} is no count", file, records.line(), k + 1);
      confusion.counts.push_back(count);
    }
  }
  require(records.ended(), Exit::data, "{} has more than {} rows", file, classes);
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
