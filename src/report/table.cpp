#include "report/table.h"

#include <fmt/format.h>

#include <utility>

namespace ddp::report {

Table::Table(std::vector<std::string> heads, size_t numbers) : heads_(std::move(heads)), numbers_(numbers) {}

void Table::add(const std::vector<std::string>& cells) {
  rows_ += "<tr>";
  for (size_t i = 0; i < cells.size(); ++i)
    rows_ += i == 0 ? fmt::format("<th scope=\"row\">{}</th>", cells[i])
                    : fmt::format("<td{}>{}</td>", i >= numbers_ ? " class=\"n\"" : "", cells[i]);
  rows_ += "</tr>\n";
}

std::string Table::text() const {
  std::string text = "<div class=\"scroll\"><table><thead><tr>";
  for (size_t i = 0; i < heads_.size(); ++i)
    text += fmt::format("<th scope=\"col\"{}>{}</th>", i >= numbers_ && i > 0 ? " class=\"n\"" : "", heads_[i]);
  return text + "</tr></thead><tbody>\n" + rows_ + "</tbody></table></div>\n";
}

std::string legend(const std::vector<std::pair<const char*, const char*>>& entries) {
  std::string text = "<p class=\"legend\">";
  for (const auto& [style, name] : entries)
    text += fmt::format(
        "<span><svg class=\"swatch\" viewBox=\"0 0 10 10\"><rect class=\"{}\" width=\"10\" height=\"10\"/></svg>{}"
        "</span> ",
        style, name);
  return text + "</p>\n";
}

std::string details(const std::string& title, const std::string& content) {
  return fmt::format("<details><summary>{}</summary>{}</details>\n", title, content);
}

}  // namespace ddp::report
