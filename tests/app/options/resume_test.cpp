#include "app/options/resume.h"

#include "core/error.h"
#include "tests/app/options/option_lines.h"

#include <gtest/gtest.h>

#include <string>

namespace ddp {
namespace {

RunState saved_by(const std::string& line) {
  const Options options = parse(line);
  RunState state;
  state.affects_results = results_options(options);
  state.affects_rounding = rounding_options(options);
  return state;
}

std::string refusal(const std::string& saved, const std::string& now) {
  try {
    require_same_results(saved_by(saved), saved_by(now), "step-7");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::usage);
    return e.what();
  }
  return "";
}

TEST(Resume, RefusesChangesOfTheMathematics) {
  EXPECT_NE(refusal("--lr 0.1", "--lr 0.3").find("--lr was 0.1, is 0.3"), std::string::npos);
  EXPECT_NE(refusal("", "--sync-bn").find("--sync-bn was not set, is true"), std::string::npos);
  const std::string both = refusal("--model mlp", "--seed 1");
  EXPECT_NE(both.find("--model was mlp, is lenet; --seed was 0, is 1"), std::string::npos) << both;
  EXPECT_NE(refusal("--optimizer adam", "--optimizer adamw"), "");
  EXPECT_NE(refusal("--lr-scheduler cosine --epochs 5", "--lr-scheduler cosine --epochs 6"), "");
}

// The path of a file is no part of the comparison, but its text is.
TEST(Resume, ComparesTheTextOfANetworkFile) {
  const auto state_of = [](const std::string& path, const std::string& text) {
    Options options = parse("--model " + path);
    options.network.source = {.name = "net", .text = text};
    RunState state;
    state.affects_results = results_options(options);
    return state;
  };
  EXPECT_NO_THROW(require_same_results(state_of("a/net.toml", "x"), state_of("b/other.toml", "x"), "step-7"));
  try {
    require_same_results(state_of("net.toml", "x"), state_of("net.toml", "y"), "step-7");
    ADD_FAILURE() << "accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("--model was a file of hash af63f54c2961e24b, is a file of hash "),
              std::string::npos)
        << e.what();
  }
  EXPECT_THROW(require_same_results(saved_by("--model mlp"), state_of("net.toml", "x"), "step-7"), Error);
}

// A run that found IDX files without their name compares their images, not the name.
TEST(Resume, TakesIdxFilesOfBothNamesForTheSame) {
  RunState saved = saved_by(""), now = saved;
  saved.affects_results["--dataset"] = "fashion-mnist";
  now.affects_results["--dataset"] = "mnist";
  EXPECT_NO_THROW(require_same_results(saved, now, "step-7"));
  now.affects_results["--dataset"] = "folder";
  EXPECT_THROW(require_same_results(saved, now, "step-7"), Error);
}

TEST(Resume, AllowsOtherChanges) {
  EXPECT_EQ(refusal("--lr 0.10", "--lr .1"), "");
  EXPECT_EQ(refusal("--epochs 5", "--epochs 6"), "");
  EXPECT_EQ(refusal("", "--zero 1 --print-freq 7 --save-every never --max-steps 3"), "");
}

TEST(Resume, ReportsChangesOfTheRounding) {
  EXPECT_EQ(rounding_differences(saved_by(""), saved_by("--zero 1")), "--zero was 0, is 1");
  EXPECT_EQ(rounding_differences(saved_by(""), saved_by("--lr 0.3")), "");
}

// 25 steps of 4 samples in each epoch.
TEST(Resume, RefusesImpossibleCounters) {
  const RunState good{.step = 60, .epoch = 2, .cursor = 40, .samples = 239};
  require_possible(good, 25, 4, "step-60");
  const auto expect_refused = [&](auto change) {
    RunState state = good;
    change(state);
    try {
      require_possible(state, 25, 4, "step-60");
      ADD_FAILURE() << "accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Exit::data);
      EXPECT_EQ(std::string(e.what()).find("step-60 cannot be right"), 0u) << e.what();
    }
  };
  expect_refused([](RunState& state) { state.step = INT64_MAX; });
  expect_refused([](RunState& state) { state.epoch = INT64_MAX; });
  expect_refused([](RunState& state) { state.cursor = INT64_MAX; });
  expect_refused([](RunState& state) { state.samples = INT64_MAX; });
}

}  // namespace
}  // namespace ddp
