// A table of HTML.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ddp::report {

class Table {
 public:
  // Heads and cells are HTML, not plain text. Columns from `numbers` on hold numbers, which end at the right.
  Table(std::vector<std::string> heads, size_t numbers);

  void add(const std::vector<std::string>& cells);  // the first one is the head of the row
  bool empty() const { return rows_.empty(); }
  std::string text() const;

 private:
  const std::vector<std::string> heads_;
  const size_t numbers_;
  std::string rows_;
};

// What colours mean: the CSS class and the name of each.
std::string legend(const std::vector<std::pair<const char*, const char*>>& entries);

// A part of the page that the reader opens.
std::string details(const std::string& title, const std::string& content);

}  // namespace ddp::report
