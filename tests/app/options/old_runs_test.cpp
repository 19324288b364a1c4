// Runs of commit 26546e9: the program still reads their config.toml and still resumes their checkpoints.
#include "app/options/option_table.h"
#include "app/options/resume.h"
#include "tests/app/options/option_lines.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace ddp {
namespace {

std::string text_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class OldRun : public ::testing::TestWithParam<const char*> {
 protected:
  std::string file(const char* suffix) const {
    return fmt::format("{}/tests/app/options/old_runs/{}.{}", DDP_TREE, GetParam(), suffix);
  }
  Options options(const std::string& more = "") const { return parse("--config " + file("toml") + " " + more); }
  RunState saved() const { return run_state_from_json(text_of(file("json")), "state.json"); }

  // The state of a run with these options, and with the data and the machine of the old run.
  RunState now(const Options& options) const {
    RunState state = saved();
    for (auto* const entries : {&state.affects_results, &state.affects_rounding})
      std::erase_if(*entries, [](const auto& entry) {
        return entry.first.starts_with("--") && entry.first != "--dataset";  // the program records what it finds
      });
    state.affects_results.merge(results_options(options));
    state.affects_rounding.merge(rounding_options(options));
    return state;
  }
};

// The new file may also have options of later versions.
TEST_P(OldRun, ConfigurationIsReadAndWrittenUnchanged) {
  const std::string now = options().effective_config;
  std::istringstream lines(text_of(file("toml")));
  for (std::string line; std::getline(lines, line);) EXPECT_NE(now.find(line + "\n"), now.npos) << line;
}

TEST_P(OldRun, ResumesWithTheSameOptions) {
  const RunState state = now(options());
  EXPECT_NO_THROW(require_same_results(saved(), state, "step-2"));
  EXPECT_EQ(rounding_differences(saved(), state), "");
}

TEST_P(OldRun, IsComparedByEachRecordedEntry) {
  const RunState before = saved(), after = now(options());
  for (const auto& [name, value] : before.affects_results) EXPECT_TRUE(after.affects_results.contains(name)) << name;
  for (const auto& [name, value] : before.affects_rounding) EXPECT_TRUE(after.affects_rounding.contains(name)) << name;
  EXPECT_THROW(require_same_results(before, now(options("--seed 4")), "step-2"), Error);
}

TEST_P(OldRun, HasTheEntriesThatRowsNameAsRecorded) {
  const RunState state = saved();
  for_each_row([&](const OptionRow& row) {
    const char* const entry = row.on_resume.recorded_as;
    // Runs that change the images, or weigh the labels, record these.
    if (!entry || entry == std::string_view("input") || entry == std::string_view("label weights")) return;
    EXPECT_TRUE(state.affects_results.contains(entry) || state.affects_rounding.contains(entry)) << row.name;
  });
}

INSTANTIATE_TEST_SUITE_P(, OldRun, ::testing::Values("sgd", "adam", "lars"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace ddp
