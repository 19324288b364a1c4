#include "report/run_tables.h"

#include "report/headline.h"
#include "report/table.h"
#include "report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace ddp::report {
namespace {

constexpr size_t kMostRows = 200;

// Of more than kMostRows, every n-th and the last.
bool is_shown(size_t i, size_t rows) {
  const size_t every = (rows + kMostRows - 1) / kMostRows;
  return every <= 1 || i % every == every - 1 || i + 1 == rows;
}

std::string count_text(int64_t value) { return number(static_cast<double>(value)); }

std::string epochs_of(const RunRecord& run) {
  std::map<int64_t, const SpeedEvent*> speeds;
  for (const SpeedEvent& speed : run.speeds) speeds[speed.step] = &speed;
  std::vector<std::string> heads{"epoch", "step", "test accuracy", "test loss"};
  if (run.of_tokens()) heads.emplace_back("perplexity");
  heads.insert(heads.end(), {"data ms", "computing ms", "exposed ms", "noise scale"});
  Table table(heads, 1);
  for (size_t i = 0; i < run.evaluations.size(); ++i) {
    if (!is_shown(i, run.evaluations.size())) continue;
    const EvalEvent& eval = run.evaluations[i];
    const auto found = speeds.find(eval.step);
    const SpeedEvent* const speed = found == speeds.end() ? nullptr : found->second;
    const Parts times = speed ? speed->slowest() : Parts{};
    std::vector<std::string> cells{count_text(eval.epoch), count_text(eval.step), number(eval.accuracy),
                                   number(eval.loss)};
    if (run.of_tokens()) cells.push_back(number(eval.perplexity));
    cells.insert(cells.end(), {number(times.data, 3), number(times.compute, 3), number(times.exposed_comm, 3),
                               number(speed ? std::round(speed->noise_scale) : kUnknown)});
    table.add(cells);
  }
  return table.empty() ? "" : table.text();
}

std::string classes_of(const RunRecord& run) {
  std::vector<ClassFigures> classes = run.summary->classes;
  const bool all = classes.size() <= kMostRows;
  if (!all) {
    std::ranges::stable_sort(classes, [](const ClassFigures& a, const ClassFigures& b) { return a.f1 < b.f1; });
    classes.resize(kMostRows);
  }
  Table table({"class", "samples", "precision", "recall", "F1"}, 1);
  for (const ClassFigures& c : classes)
    table.add({short_html(c.name), number(c.count), number(c.precision), number(c.recall), number(c.f1)});
  return (all ? ""
              : fmt::format("<p class=\"note\">{} of {} classes, those with the lowest F1</p>", kMostRows,
                            run.summary->classes.size())) +
         table.text();
}

std::string value_of(const RunRecord& run, const std::string& option) {
  const auto found = std::ranges::find(run.options, option, &Options::value_type::first);
  return found == run.options.end() ? "–" : short_html(found->second, 500);
}

// All names, in the order of the first run that has them.
std::vector<std::string> option_names(std::span<const RunRecord> runs) {
  std::vector<std::string> names;
  std::set<std::string> known;
  for (const RunRecord& run : runs)
    for (const auto& [name, value] : run.options)
      if (known.insert(name).second) names.push_back(name);
  return names;
}

// Such as "h1 (4 ranks), h2 (4 ranks)".
std::string hosts_of(const RunEvent& process) {
  constexpr size_t kMostHosts = 16;
  std::map<std::string, int> ranks;
  for (const std::string& host : process.hosts) ++ranks[host];
  std::string text;
  size_t shown = 0;
  for (const auto& [host, count] : ranks) {
    if (++shown > kMostHosts) return text + fmt::format(" and {} more", ranks.size() - kMostHosts);
    text += fmt::format("{}{} ({} rank{})", shown == 1 ? "" : ", ", short_html(host), count, count == 1 ? "" : "s");
  }
  return text;
}

}  // namespace

std::string epoch_tables(std::span<const RunRecord> runs) {
  std::string text;
  for (size_t r = 0; r < runs.size(); ++r)
    if (const std::string table = epochs_of(runs[r]); !table.empty())
      text += details(runs.size() == 1 ? "Evaluations as a table" : name_with_key(runs, r) + ": evaluations as a table",
                      table);
  return text;
}

std::string class_tables(std::span<const RunRecord> runs) {
  std::string text;
  for (size_t r = 0; r < runs.size(); ++r)
    if (runs[r].summary && !runs[r].summary->classes.empty())
      text += details(runs.size() == 1 ? "Precision, recall and F1 of each class"
                                       : name_with_key(runs, r) + ": precision, recall and F1 of each class",
                      classes_of(runs[r]));
  return text;
}

std::string option_tables(std::span<const RunRecord> runs) {
  std::vector<std::string> heads{"option"};
  for (size_t r = 0; r < runs.size(); ++r) heads.push_back(runs.size() == 1 ? "value" : name_with_key(runs, r));
  Table different(heads, 9999), equal({"option", "value"}, 9999);
  for (const std::string& name : option_names(runs)) {
    std::vector<std::string> cells{html(name)};
    for (const RunRecord& run : runs) cells.push_back(value_of(run, name));
    const bool differs =
        std::ranges::any_of(cells.begin() + 2, cells.end(), [&](const auto& c) { return c != cells[1]; });
    if (differs && name != "output-dir")
      different.add(cells);
    else if (!differs || runs.size() == 1)
      equal.add({cells[0], cells[1]});
  }
  std::string text;
  if (runs.size() > 1)
    text = different.empty() ? "<p>All options are equal.</p>\n" : "<p>Options that differ:</p>" + different.text();
  if (!equal.empty()) text += details(runs.size() == 1 ? "All options" : "Options with one value", equal.text());
  return text;
}

std::string process_table(std::span<const RunRecord> runs) {
  std::vector<std::string> heads{"started", "from step", "ddp_train", "ranks", "hosts", "device", "libraries", "notes"};
  if (runs.size() > 1) heads.insert(heads.begin(), "run");
  Table table(heads, 9999);
  for (size_t r = 0; r < runs.size(); ++r)
    for (const RunEvent& process : runs[r].processes) {
      std::string notes;
      for (const char* name : {"precision", "transport", "backend"})
        if (const std::string fact = process.fact(name); !fact.empty())
          notes += (notes.empty() ? "" : "; ") + short_html(fact, 200);
      std::vector<std::string> cells{short_html(process.fact("time"), 200),
                                     count_text(process.step),
                                     short_html(process.fact("version"), 200),
                                     count_text(process.world_size),
                                     hosts_of(process),
                                     short_html(process.fact("device"), 200),
                                     short_html(process.fact("libraries"), 200),
                                     notes};
      if (runs.size() > 1) cells.insert(cells.begin(), name_with_key(runs, r));
      table.add(cells);
    }
  if (table.empty()) return "<p>Not recorded: an older ddp_train wrote metrics.jsonl.</p>\n";
  return table.text();
}

}  // namespace ddp::report
