#include "report/confusion_grid.h"

#include "report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace ddp::report {
namespace {

using Out = std::back_insert_iterator<std::string>;

constexpr size_t kGridClasses = 40, kMostPairs = 10, kMostNumbers = 12;
constexpr double kGridWidth = 480;
constexpr size_t kLongestLabel = 10;  // characters

void draw_grid(Out out, const Confusion& confusion) {
  const size_t classes = confusion.classes.size();
  size_t longest = 1;
  for (const std::string& name : confusion.classes)
    longest = std::max(longest, std::min(name.size(), kLongestLabel + 1));
  const double left = 14 + 7.0 * static_cast<double>(longest), top = 16 + 6.0 * static_cast<double>(longest);
  const double cell = (kGridWidth - left) / static_cast<double>(classes);
  const auto at = [&](size_t k) { return cell * static_cast<double>(k); };
  const bool numbers = classes <= kMostNumbers;
  fmt::format_to(out, "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"confusion matrix\">", kGridWidth,
                 coordinate(top + at(classes) + 2));
  const char* const size = classes <= 20 ? "" : " small";
  fmt::format_to(out, "<g class=\"tick end{}\">", size);
  for (size_t k = 0; k < classes; ++k)
    fmt::format_to(out, "<text x=\"{}\" y=\"{}\">{}</text>", coordinate(left - 6),
                   coordinate(top + at(k) + cell / 2 + 4), label_html(confusion.classes[k], kLongestLabel));
  fmt::format_to(out, "</g><g class=\"tick{}\">", size);
  for (size_t k = 0; k < classes; ++k)
    fmt::format_to(out, "<text transform=\"translate({} {}) rotate(-60)\">{}</text>",
                   coordinate(left + at(k) + cell / 2 + 3), top - 6, label_html(confusion.classes[k], kLongestLabel));
  fmt::format_to(out, "</g>");
  for (size_t label = 0; label < classes; ++label) {
    const int64_t samples = confusion.samples(label);
    for (size_t k = 0; k < classes; ++k) {
      const int64_t count = confusion.count(label, k);
      if (count == 0) continue;
      const double share = static_cast<double>(count) / static_cast<double>(samples);
      const double x = left + at(k), y = top + at(label);
      fmt::format_to(
          out,
          "<rect class=\"{}\" fill-opacity=\"{:.2f}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" data-tip=\"{}: {} "
          "predicted as {} ({})\"/>",
          k == label ? "c-right" : "c-wrong", std::max(0.04, share), coordinate(x), coordinate(y), coordinate(cell - 1),
          coordinate(cell - 1), short_html(confusion.classes[label]), count, short_html(confusion.classes[k]),
          percent(share));
      if (numbers)
        fmt::format_to(out, "<text class=\"count{}\" x=\"{}\" y=\"{}\">{}</text>", share > 0.55 ? " strong" : "",
                       coordinate(x + (cell - 1) / 2), coordinate(y + cell / 2 + 4), count);
    }
  }
  fmt::format_to(out, "</svg>");
}

}  // namespace

std::string draw_confusion(const std::string& run, const Confusion& confusion) {
  const bool grid = confusion.classes.size() <= kGridClasses;
  std::string text;
  const Out out(text);
  fmt::format_to(
      out, "<figure class=\"plot confusion\"><figcaption><b>{}</b> <span>{}</span></figcaption>", html(run),
      grid ? "rows: true class, columns: predicted class" : "more than 40 classes: the most frequent errors");
  if (grid) {
    draw_grid(out, confusion);
    fmt::format_to(out, "<p class=\"readout\">blue: right, orange: wrong, as a share of the true class</p>");
  }
  const auto pairs = worst_pairs(confusion, grid ? kMostPairs : 2 * kMostPairs);
  if (!pairs.empty() && !grid) {
    fmt::format_to(
        out,
        "<div class=\"scroll\"><table><thead><tr><th>true class</th><th>predicted as</th><th class=\"n\">samples"
        "</th><th class=\"n\">of its class</th></tr></thead><tbody>");
    for (const auto& [label, k, count] : pairs)
      fmt::format_to(out, "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
                     short_html(confusion.classes[label]), short_html(confusion.classes[k]),
                     number(static_cast<double>(count)),
                     percent(static_cast<double>(count) / static_cast<double>(confusion.samples(label))));
    fmt::format_to(out, "</tbody></table></div>");
  }
  return text + "</figure>\n";
}

}  // namespace ddp::report
