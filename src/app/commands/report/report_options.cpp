#include "app/commands/report/report_options.h"

#include "app/options/config_file.h"
#include "app/options/parse_command.h"
#include "core/error.h"
#include "core/read_file.h"
#include "report/plot.h"

#include <CLI/CLI.hpp>

#include <sstream>
#include <system_error>

namespace ddp {
namespace fs = std::filesystem;

ReportOptions parse_report_options(std::span<const std::string> arguments, std::optional<std::string>& answer) {
  ReportOptions options;
  CLI::App app(
      "Writes one HTML page of one or several runs: curves, throughput, where the time of a step goes, the buckets of "
      "a "
      "step, classes, options and versions. Several runs stand side by side. A run may still go on. The page needs no "
      "network and no other file. Prints the path of the page.",
      "ddp_train report");
  app.add_option("RUNS", options.runs, "output folders of runs; one or more")
      ->required()
      ->expected(1, report::Plot::kColours);
  CLI::Option* const output =
      app.add_option("--output", options.output,
                     "HTML file, which is replaced if it exists; default: report.html in the folder of the first run");
  app.add_flag("--csv", options.csv,
               "write the numbers of metrics.jsonl to the standard output as CSV, and no page: a row for each step, "
               "each evaluation, and each rank's times of an epoch")
      ->excludes(output);
  if (!parse_command(app, arguments, answer)) return options;
  if (options.csv) return options;
  if (options.output.empty()) options.output = options.runs.front() / "report.html";
  require(options.output.extension() == ".html", Exit::usage, "--output {}: the name must end in .html",
          options.output.string());
  return options;
}

std::vector<std::pair<std::string, std::string>> options_of_run(const fs::path& folder) {
  constexpr int64_t kLargest = 1 << 16;
  const fs::path file = folder / "config.toml";
  std::error_code error;
  if (!fs::exists(file, error)) return {};
  std::istringstream text(read_whole_file(file, kLargest));
  std::vector<std::pair<std::string, std::string>> options;
  try {
    for (const CLI::ConfigItem& item : make_toml_reader()->from_config(text)) {
      std::string value;
      for (const std::string& part : item.inputs) value += (value.empty() ? "" : ",") + part;
      options.emplace_back(item.name, value);
    }
  } catch (const Error& e) {
    fail(Exit::data, "{}: {}", file.string(), e.what());
  }
  return options;
}

}  // namespace ddp
