#include "app/options/resume.h"

#include "core/error.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace ddp {
namespace {

Options parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "ddp_train");
  std::optional<std::string> answer;
  return parse_options(static_cast<int>(arguments.size()), arguments.data(), answer);
}

RunState state_of(const std::vector<const char*>& arguments) {
  const Options options = parse(arguments);
  RunState state;
  state.affects_results = results_options(options);
  state.affects_rounding = rounding_options(options);
  return state;
}

std::string refusal(const std::vector<const char*>& saved, const std::vector<const char*>& now) {
  try {
    require_same_results(state_of(saved), state_of(now), "step-7");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::usage);
    return e.what();
  }
  return "";
}

TEST(Resume, RefusesChangesOfTheMathematics) {
  EXPECT_NE(refusal({"--lr", "0.1"}, {"--lr", "0.3"}).find("--lr was 0.1, is 0.3"), std::string::npos);
  EXPECT_NE(refusal({}, {"--sync-bn"}).find("--sync-bn was not set, is true"), std::string::npos);
  const std::string both = refusal({"--model", "mlp"}, {"--seed", "1"});
  EXPECT_NE(both.find("--model was mlp, is lenet; --seed was 0, is 1"), std::string::npos) << both;
  EXPECT_NE(refusal({"--optimizer", "adam"}, {"--optimizer", "adamw"}), "");
  EXPECT_NE(refusal({"--lr-scheduler", "cosine", "--epochs", "5"}, {"--lr-scheduler", "cosine", "--epochs", "6"}), "");
}

// A run that found IDX files without their name compares their images, not the name.
TEST(Resume, TakesIdxFilesOfBothNamesForTheSame) {
  RunState saved = state_of({}), now = saved;
  saved.affects_results["--dataset"] = "fashion-mnist";
  now.affects_results["--dataset"] = "mnist";
  EXPECT_NO_THROW(require_same_results(saved, now, "step-7"));
  now.affects_results["--dataset"] = "folder";
  EXPECT_THROW(require_same_results(saved, now, "step-7"), Error);
}

TEST(Resume, AllowsOtherChanges) {
  EXPECT_EQ(refusal({"--lr", "0.10"}, {"--lr", ".1"}), "");
  EXPECT_EQ(refusal({"--epochs", "5"}, {"--epochs", "6"}), "");
  EXPECT_EQ(refusal({}, {"--zero", "1", "--print-freq", "7", "--save-every", "never", "--max-steps", "3"}), "");
}

TEST(Resume, ReportsChangesOfTheRounding) {
  EXPECT_EQ(rounding_differences(state_of({}), state_of({"--zero", "1"})), "--zero was 0, is 1");
  EXPECT_EQ(rounding_differences(state_of({}), state_of({"--lr", "0.3"})), "");
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
