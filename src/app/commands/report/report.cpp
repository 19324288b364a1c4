#include "app/commands/report/report.h"

#include "app/commands/report/page_info.h"
#include "app/commands/report/report_options.h"
#include "core/durable_file.h"
#include "core/log.h"
#include "core/printable.h"
#include "report/csv.h"
#include "report/page.h"
#include "report/run_record.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

namespace ddp {
namespace {

namespace fs = std::filesystem;

// The last part of each path; the whole paths where two of these are equal.
std::vector<std::string> names_of(const std::vector<fs::path>& folders) {
  std::vector<std::string> names, paths;
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    const fs::path whole = fs::absolute(folder, ignored).lexically_normal();
    names.push_back((whole.has_filename() ? whole : whole.parent_path()).filename().string());
    paths.push_back(folder.string());
  }
  std::vector<std::string> sorted = names;
  std::ranges::sort(sorted);
  const bool distinct = std::ranges::adjacent_find(sorted) == sorted.end();
  return distinct ? names : paths;
}

// Writes to `out` until its reader ends.
void write_csv(const std::vector<fs::path>& folders, const std::vector<std::string>& names, std::FILE* out) {
  const auto write = [&](const std::string& lines) { return write_output(out, lines, "the table"); };
  if (!write(report::csv_header())) return;
  for (size_t r = 0; r < folders.size(); ++r)
    if (!report::write_csv(folders[r], names[r], write)) return;
}

}  // namespace

Exit write_report(std::span<const std::string> arguments, std::FILE* out) {
  std::optional<std::string> answer;
  const ReportOptions options = parse_report_options(arguments, answer);
  if (answer) {
    write_output(out, *answer, "the output");
    return Exit::done;
  }
  for (const fs::path& folder : options.runs) report::require_run(folder);
  const std::vector<std::string> names = names_of(options.runs);
  if (options.csv) {
    write_csv(options.runs, names, out);
    return Exit::done;
  }
  require_replaceable(options.output, "--output");
  std::vector<report::RunRecord> runs;
  for (size_t r = 0; r < options.runs.size(); ++r)
    runs.push_back(report::read_run(options.runs[r], names[r], options_of_run(options.runs[r])));
  replace_file(options.output, report::page(runs, page_info()), false);
  write_output(out, printable(options.output.native()) + "\n", "the path of the page");
  return Exit::done;
}

}  // namespace ddp
