// Each row of the option table reaches --help, launch/README.md, config.toml and the comparison on resume. This command
// writes the table of launch/README.md from the rows:
//
//   DDP_WRITE_README=1 launch/test cpu -R EqualsTheTableOfTheReadme
#include "app/options/option_table.h"

#include "app/options/resume.h"
#include "tests/app/options/option_lines.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

namespace ddp {
namespace {

std::vector<OptionRow> all_rows() {
  std::vector<OptionRow> rows;
  for_each_row([&](const OptionRow& row) { rows.push_back(row); });
  return rows;
}

bool names(const std::string& line, const OptionRow& row) { return std::ranges::count(words(line), row.name) > 0; }

std::string value_of(const Options& options, const OptionRow& row) {
  const auto found = options.named.find(row.name);
  return found == options.named.end() ? "" : found->second;
}

TEST(OptionTable, EachRowIsInTheHelp) {
  std::string help;
  parse("--help", &help);
  for (const OptionRow& row : all_rows()) {
    EXPECT_NE(help.find(fmt::format("\n  {} ", row.name)), help.npos) << row.name;
    EXPECT_NE(help.find(fmt::format(" {}\n", row.text())), help.npos) << row.name;
  }
}

TEST(OptionTable, EachConfigurableRowIsInTheEffectiveConfiguration) {
  for (const OptionRow& row : all_rows()) {
    const std::string key = fmt::format("\n{} = ", std::string(row.name).substr(2));
    const auto line = std::ranges::find_if(kLines, [&](const std::string& l) { return names(l, row); });
    if (!row.configurable) {
      EXPECT_EQ(line, kLines.end()) << row.name;
      continue;
    }
    ASSERT_NE(line, kLines.end()) << row.name << ": give option_lines.h a line with this option";
    EXPECT_NE(parse(*line).effective_config.find(key), std::string::npos) << row.name;
  }
}

// A row without an effect does not compile.
template <class Row>
concept CompletesWithoutEffect = requires {
  Row{.name = "--new", .target = Target(), .help = ""};
};
template <class Row>
concept CompletesWithEffect = requires {
  Row{.name = "--new", .target = Target(), .on_resume = Effect::nothing, .help = ""};
};
static_assert(CompletesWithEffect<OptionRow> && !CompletesWithoutEffect<OptionRow>);

RunState recorded(const Options& options) {
  RunState state;
  state.affects_results = results_options(options);
  state.affects_rounding = rounding_options(options);
  return state;
}

std::string refused_changes(const RunState& saved, const RunState& now) {
  try {
    require_same_results(saved, now, "step-7");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::usage);
    return e.what();
  }
  return "";
}

TEST(OptionTable, EachRowHasItsEffectOnResume) {
  const Options plain = parse("");
  const RunState saved = recorded(plain);
  std::set<std::string> tried;
  for (const std::string& line : kLines) {
    const Options other = parse(line);
    const RunState now = recorded(other);
    const std::string refused = refused_changes(saved, now), rounded = rounding_differences(saved, now);
    for (const OptionRow& row : all_rows()) {
      if (!names(line, row) || value_of(other, row) == value_of(plain, row)) continue;
      tried.insert(row.name);
      const bool compared = !row.on_resume.recorded_as && row.on_resume.condition.met_by(other);
      const std::string change = row.name + std::string(" was ");
      EXPECT_EQ(refused.find(change) != refused.npos, compared && row.on_resume.effect == Effect::results) << line;
      EXPECT_EQ(rounded.find(change) != rounded.npos, compared && row.on_resume.effect == Effect::rounding) << line;
    }
  }
  for (const OptionRow& row : all_rows()) {
    EXPECT_TRUE(row.configurable || row.on_resume.effect == Effect::process) << row.name;
    EXPECT_TRUE(!row.configurable || tried.contains(row.name)) << row.name;
  }
}

std::string with_code(const std::string& text) {
  return std::regex_replace(text, std::regex("--[a-z][a-z0-9-]*"), "`$&`");
}

std::string on_resume(const OnResume& rule) {
  if (rule.effect == Effect::process) return "not kept";
  if (rule.effect == Effect::nothing) return "free";
  if (rule.effect == Effect::rounding) return "rounding";
  if (rule.fixed_because) return rule.recorded_as ? fmt::format("same {}", rule.recorded_as) : "same";
  return rule.condition.holds ? fmt::format("change {}", with_code(rule.condition.sentence)) : "change";
}

// The choices are in CLI11's type name, such as TEXT:{auto,ring}.
std::string choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{');
  if (open == type.npos) return "";
  std::string choices = "`";
  for (const char c : type.substr(open + 1, type.size() - open - 2)) choices += c == ',' ? "`, `" : std::string(1, c);
  return choices + "`: ";
}

std::string readme_table() {
  CLI::App app;
  Options options;
  declare(app, options);
  std::string table = "| option | default | on resume | meaning |\n| --- | --- | --- | --- |\n";
  for (const OptionGroup& group : option_table()) {
    table += fmt::format("| **{}** | | | |\n", group.name);
    for (const OptionRow& row : group.rows) {
      const CLI::Option& option = *app.get_option(row.name);
      const std::string value = option.get_default_str();
      table += fmt::format("| `{}` | {} | {} | {}{} |\n", row.name, value.empty() ? "" : fmt::format("`{}`", value),
                           on_resume(row.on_resume), choices_of(option), with_code(row.text()));
    }
  }
  return table;
}

TEST(OptionTable, EqualsTheTableOfTheReadme) {
  const std::string path = std::string(DDP_TREE) + "/launch/README.md", mark = "<!-- options -->\n",
                    end = "<!-- /options -->\n";
  std::stringstream file;
  file << std::ifstream(path).rdbuf();
  std::string readme = file.str();
  const size_t from = readme.find(mark), to = readme.find(end);
  ASSERT_TRUE(from != readme.npos && to != readme.npos);
  const size_t begin = from + mark.size();
  if (std::getenv("DDP_WRITE_README")) {
    readme.replace(begin, to - begin, readme_table());
    std::ofstream(path) << readme;
  } else {
    EXPECT_EQ(readme.substr(begin, to - begin), readme_table())
        << "write it again: DDP_WRITE_README=1 launch/test cpu -R EqualsTheTableOfTheReadme";
  }
}

}  // namespace
}  // namespace ddp
