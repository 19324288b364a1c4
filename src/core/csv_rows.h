// Reads CSV as RFC 4180: fields are separated by commas, a field in quotes may have commas, line ends and quotes (each
// written twice). Lines end in LF or CRLF. A byte order mark of UTF-8 and empty lines are passed over.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

class CsvRows {
 public:
  CsvRows(std::string name, std::string_view text);  // name: of the file, for messages; text outlives this object

  // Reads the next row into `fields`; returns false at the end. Throws Error(Exit::data) with the line for a quote that
  // is not closed, text behind a closing quote, a quote within a field, a lone carriage return, and a zero byte.
  bool next(std::vector<std::string>& fields);

  int64_t line() const { return row_line_; }  // where the row began, from 1
  std::string at() const;                     // "file, line 7", for messages

 private:
  void quoted_field(std::string& field);
  void plain_field(std::string& field);
  bool take_line_end();
  [[noreturn]] void fail_here(std::string_view why) const;

  const std::string name_;
  std::string_view rest_;
  int64_t line_ = 1, row_line_ = 0;
};

}  // namespace ddp
