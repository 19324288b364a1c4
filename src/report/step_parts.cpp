#include "report/step_parts.h"

#include "report/axis.h"
#include "report/table.h"
#include "report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <numeric>

namespace ddp::report {
namespace {

struct PartKind {
  const char *name, *style;
  double Parts::*ms;
};
constexpr std::array kParts = {PartKind{"waiting for data", "p-data", &Parts::data},
                               PartKind{"computing", "p-compute", &Parts::compute},
                               PartKind{"exposed communication", "p-comm", &Parts::exposed_comm}};

}  // namespace

std::string step_parts_legend() {
  std::vector<std::pair<const char*, const char*>> entries;
  for (const PartKind& part : kParts) entries.emplace_back(part.style, part.name);
  return legend(entries);
}

std::string draw_step_parts(const std::string& run, const std::vector<Parts>& ranks, double longest) {
  if (ranks.empty()) return "";
  constexpr size_t kMostRanks = 32;
  constexpr double kWidth = 480, kLeft = 66, kRight = 410, kRow = 22, kBar = 15;
  std::vector<size_t> shown(ranks.size());
  std::iota(shown.begin(), shown.end(), size_t{0});
  if (shown.size() > kMostRanks) {
    std::ranges::stable_sort(shown, std::greater(), [&](size_t r) { return ranks[r].busy(); });
    shown.resize(kMostRanks);
    std::ranges::sort(shown);
  }
  const Axis x({.low = 0, .high = longest, .from = kLeft, .to = kRight, .ticks = 4});
  const double bottom = 4 + kRow * static_cast<double>(shown.size());
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "<figure class=\"plot bars\"><figcaption><b>{}</b> <span>ms a step</span></figcaption>",
                 html(run));
  fmt::format_to(out, "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}: parts of a step of each rank, ms\">",
                 kWidth, coordinate(bottom + 24), html(run));
  text += vertical_ticks(x, 2, bottom, bottom + 18);
  double y = 6;
  for (const size_t rank : shown) {
    fmt::format_to(out, "<g class=\"tick end\"><text x=\"{}\" y=\"{}\">rank {}</text></g>", kLeft - 8,
                   coordinate(y + 12), rank);
    double begin = 0;
    for (const PartKind& part : kParts) {
      const double ms = ranks[rank].*part.ms;
      fmt::format_to(
          out,
          "<rect class=\"{}\" x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" data-tip=\"rank {}: {} {} ms "
          "({})\"/>",
          part.style, x.at(begin), coordinate(y), x.at(begin + ms) - x.at(begin), kBar, rank, part.name, number(ms),
          percent(ms / ranks[rank].total()));
      begin += ms;
    }
    fmt::format_to(out, "<g class=\"tick\"><text x=\"{}\" y=\"{}\">{}</text></g>", coordinate(x.at(begin) + 6),
                   coordinate(y + 12), number(begin, 3));
    y += kRow;
  }
  const Parts& slowest = slowest_of(ranks);
  fmt::format_to(out,
                 "</svg><p class=\"readout\">slowest rank {}: data {}, computing {}, exposed communication {} ms</p>",
                 &slowest - ranks.data(), number(slowest.data), number(slowest.compute), number(slowest.exposed_comm));
  if (shown.size() < ranks.size())
    fmt::format_to(out, "<p class=\"note\">the {} slowest of {} ranks</p>", shown.size(), ranks.size());
  return text + "</figure>\n";
}

}  // namespace ddp::report
