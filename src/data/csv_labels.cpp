#include "data/csv_labels.h"

#include "core/csv_rows.h"
#include "core/error.h"
#include "core/printable.h"
#include "data/known_names.h"
#include "data/unicode.h"

#include <algorithm>
#include <climits>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace ddp {
namespace {

struct Columns {
  size_t path, label, count;
  std::optional<size_t> split;
  std::string others;  // that are not read
};

// `header`: the first row of the file.
Columns find_columns(const std::string& name, const std::vector<std::string>& header, std::vector<std::string>& notes) {
  std::optional<size_t> path, label, split;
  std::string all, others;
  for (size_t i = 0; i < header.size(); ++i) {
    const auto keep = [&](std::optional<size_t>& column) {
      require(!column, Exit::data, "{}: its first line names the column {} twice", name, header[i]);
      column = i;
    };
    if (header[i] == "path")
      keep(path);
    else if (header[i] == "label")
      keep(label);
    else if (header[i] == "split")
      keep(split);
    else
      others += fmt::format("{}\"{}\"", others.empty() ? "" : ", ", printable(header[i]));
    all += fmt::format("{}\"{}\"", all.empty() ? "" : ", ", printable(header[i]));
  }
  require(path && label, Exit::data,
          "{}: its first line must name the columns path and label, and may name split; separated by commas, without "
          "spaces. It names {}",
          name, all);
  if (!others.empty()) notes.push_back(fmt::format("{}: not read: the columns {}", name, others));
  return {*path, *label, header.size(), split, others};
}

bool is_validation(const std::string& name, const CsvRows& rows) {
  const Split split = split_of(name);
  if (split == Split::none)
    fail(Exit::data, "{}: unknown split \"{}\"; write train or val", rows.at(), printable(name));
  return split == Split::val;
}

// Resolves `.` and `..` in the text of a path.
std::string inside_path(const std::string& text, const CsvRows& rows) {
  const auto refuse = [&](const char* why) { fail(Exit::data, "{}: \"{}\" {}", rows.at(), printable(text), why); };
  if (text.empty()) refuse("is no path");
  if (text.front() == '/') refuse("is an absolute path; write paths relative to --data-path");
  std::string path;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('/', begin), text.size());
    const std::string_view part = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    if (part == "..") {
      if (path.empty()) refuse("leaves --data-path");
      const size_t cut = path.rfind('/');
      path.resize(cut == path.npos ? 0 : cut);
    } else if (!part.empty() && part != ".") {
      if (!path.empty()) path += '/';
      path += part;
    }
  }
  if (path.empty() || text.back() == '/') refuse("names a folder, not a file");
  if (path.size() >= PATH_MAX) refuse("is too long");
  return path;
}

void require_no_duplicates(const std::string& name, LabelTable& table) {
  std::unordered_map<std::string_view, const LabelRow*> first[2];  // by path; training and validation
  int64_t in_both = 0;
  for (const LabelRow& row : table.rows) {
    for (const bool val : {false, true}) {
      const auto found = first[val].find(row.path);
      if (found == first[val].end()) continue;
      const LabelRow& other = *found->second;
      require(other.label == row.label, Exit::data, "{}, lines {} and {}: {} has two labels, {} and {}", name,
              other.line, row.line, printable(row.path), printable(other.label), printable(row.label));
      require(val != row.val, Exit::data, "{}, lines {} and {}: {} stands twice; remove one line", name, other.line,
              row.line, printable(row.path));
      ++in_both;
    }
    first[row.val].emplace(row.path, &row);
  }
  if (in_both > 0)
    table.notes.push_back(fmt::format("warning: {}: {} files are training and validation data", name, in_both));
}

// A label as it stands in the file, and where.
struct WrittenLabel {
  std::string text;
  int64_t line;
};

// Gives the label its normal form. Refuses another form of a label that the same split has; `seen`: labels so far.
void normalize(LabelRow& row, std::map<std::string, WrittenLabel>& seen, const std::string& name) {
  std::string form = composed(row.label);
  const auto [first, is_new] = seen.try_emplace(form, row.label, row.line);
  if (first->second.text != row.label)
    fail(Exit::data, "{}, lines {} and {}: one label in two Unicode normal forms: {}; write it in one", name,
         first->second.line, row.line, shown_with_bytes(first->second.text, row.label));
  row.label = std::move(form);
}

void find_classes(const std::string& name, const Columns& columns, int least_classes, LabelTable& table) {
  std::unordered_set<std::string_view> known;
  for (const LabelRow& row : table.rows)
    if (!row.val && known.insert(row.label).second) table.classes.push_back(row.label);
  require(!known.empty(), Exit::data, "{}: has no row of training data", name);
  sort_classes(table.classes);
  const std::string others = columns.others.empty() ? "" : "; columns that are not read: " + columns.others;
  if (std::ranges::all_of(table.classes, [](const std::string& label) { return split_of(label) != Split::none; }))
    fail(
        Exit::data,
        "{}: all labels have names of splits: {}; name the column of the splits split, and that of the classes label{}",
        name, first_names(table.classes), others);
  require(std::ssize(table.classes) >= least_classes, Exit::data,
          "{}: all training rows have the label {}, and a network learns to tell at least two classes apart{}", name,
          printable(table.classes.front()), others);
  for (const LabelRow& row : table.rows)
    if (!known.contains(row.label))
      fail(Exit::data, "{}, line {}: no training row has the label {}; the classes are those of the training rows{}",
           name, row.line, printable(row.label), case_differences({&row.label, 1}, table.classes));
}

// A whole decimal number: its sign and its digits without leading zeros.
struct WholeNumber {
  bool negative;
  std::string_view digits;
};
std::optional<WholeNumber> whole_number(std::string_view text) {
  const bool minus = text.starts_with('-');
  if (minus) text.remove_prefix(1);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_digit)) return std::nullopt;
  text.remove_prefix(std::min(text.find_first_not_of('0'), text.size()));
  return WholeNumber{minus && !text.empty(), text};
}
bool is_less(const WholeNumber& a, const WholeNumber& b) {
  if (a.negative != b.negative) return a.negative;
  const auto& [small, large] = a.negative ? std::pair(b.digits, a.digits) : std::pair(a.digits, b.digits);
  return small.size() != large.size() ? small.size() < large.size() : small < large;
}

}  // namespace

void sort_classes(std::vector<std::string>& names) {
  const bool numbers =
      std::ranges::all_of(names, [](const std::string& name) { return whole_number(name).has_value(); });
  std::ranges::sort(names, [&](const std::string& a, const std::string& b) {
    if (!numbers) return a < b;
    const WholeNumber x = *whole_number(a), y = *whole_number(b);
    return is_less(x, y) || (!is_less(y, x) && a < b);  // 1 and 01 are two names
  });
}

LabelTable parse_labels(const std::string& file, std::string_view text, int least_classes) {
  const std::string name = printable(file);
  CsvRows rows(file, text);
  std::vector<std::string> fields;
  require(rows.next(fields), Exit::data, "{}: is empty; its first line names the columns: path,label", name);
  LabelTable table;
  const Columns columns = find_columns(name, fields, table.notes);
  std::map<std::string, WrittenLabel> seen[2];  // training and validation
  while (rows.next(fields)) {
    if (fields.size() != columns.count)
      fail(Exit::data, "{}: has {} fields, the first line {}; put a field with a comma in quotes", rows.at(),
           fields.size(), columns.count);
    std::string& label = fields[columns.label];
    if (label.empty()) fail(Exit::data, "{}: the label is empty", rows.at());
    table.rows.push_back({.path = inside_path(fields[columns.path], rows),
                          .label = std::move(label),
                          .val = columns.split && is_validation(fields[*columns.split], rows),
                          .line = rows.line()});
    normalize(table.rows.back(), seen[table.rows.back().val], name);
  }
  require_no_duplicates(name, table);
  find_classes(name, columns, least_classes, table);
  return table;
}

}  // namespace ddp
