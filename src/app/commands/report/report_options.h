// The command line of ddp_train report.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddp {

struct ReportOptions {
  std::vector<std::filesystem::path> runs;  // output folders
  std::filesystem::path output;             // the page; empty with `csv`
  bool csv = false;                         // writes the numbers to the standard output, and no page
};

// Parses the arguments after "report". A request for help sets `answer` to its text. Throws Error(Exit::usage).
ReportOptions parse_report_options(std::span<const std::string> arguments, std::optional<std::string>& answer);

// The options of a run, from its config.toml, in the order of the file; empty without this file. Throws
// Error(Exit::data) where the file cannot be read or is no configuration of a run.
std::vector<std::pair<std::string, std::string>> options_of_run(const std::filesystem::path& folder);

}  // namespace ddp
