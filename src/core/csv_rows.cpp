#include "core/csv_rows.h"

#include "core/error.h"
#include "core/printable.h"

#include <algorithm>
#include <utility>

namespace ddp {

CsvRows::CsvRows(std::string name, std::string_view text) : name_(std::move(name)), rest_(text) {
  if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
  require(!rest_.starts_with("\xFF\xFE") && !rest_.starts_with("\xFE\xFF"), Exit::data,
          "{}: is UTF-16; save it as CSV in UTF-8", printable(name_));
}

std::string CsvRows::at() const { return fmt::format("{}, line {}", printable(name_), row_line_); }

void CsvRows::fail_here(std::string_view why) const {
  fail(Exit::data, "{}, line {}: {}", printable(name_), line_, why);
}

bool CsvRows::take_line_end() {
  const size_t bytes = rest_.starts_with("\r\n") ? 2 : rest_.starts_with('\n') ? 1 : 0;
  rest_.remove_prefix(bytes);
  if (bytes > 0) ++line_;
  return bytes > 0;
}

bool CsvRows::next(std::vector<std::string>& fields) {
  while (take_line_end()) {
  }
  if (rest_.empty()) return false;
  row_line_ = line_;
  for (size_t count = 1;; ++count) {
    if (fields.size() < count) fields.emplace_back();
    std::string& field = fields[count - 1];
    field.clear();
    if (rest_.starts_with('"'))
      quoted_field(field);
    else
      plain_field(field);
    if (rest_.empty() || take_line_end()) {
      fields.resize(count);
      return true;
    }
    if (!rest_.starts_with(',')) fail_here("a closing quote must be followed by a comma or the end of the line");
    rest_.remove_prefix(1);
  }
}

void CsvRows::plain_field(std::string& field) {
  const size_t size = std::min(rest_.find_first_of(std::string_view(",\n\r\"\0", 5)), rest_.size());
  field = rest_.substr(0, size);
  rest_.remove_prefix(size);
  if (rest_.starts_with('"')) fail_here("a quote within a field: put the field in quotes and write \"\" for a quote");
  if (rest_.starts_with('\0')) fail_here("a zero byte; save the file as CSV in UTF-8");
  if (rest_.starts_with('\r') && !rest_.starts_with("\r\n"))
    fail_here("a carriage return without a line feed: end lines in LF or CRLF");
}

void CsvRows::quoted_field(std::string& field) {
  const int64_t begin = line_;
  for (;;) {
    rest_.remove_prefix(1);  // a quote
    const size_t size = rest_.find('"');
    if (size == rest_.npos) {
      line_ = begin;
      fail_here("the quote that opens a field is not closed");
    }
    const std::string_view part = rest_.substr(0, size);
    if (part.find('\0') != part.npos) fail_here("a zero byte; save the file as CSV in UTF-8");
    field += part;
    line_ += std::count(part.begin(), part.end(), '\n');
    rest_.remove_prefix(size + 1);
    if (!rest_.starts_with('"')) return;
    field += '"';
  }
}

}  // namespace ddp
