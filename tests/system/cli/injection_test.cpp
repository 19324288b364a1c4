// Each injected fault, at 2 and 4 ranks: the documented exit code, one message that names rank and cause, and no
// processes, shared memory or partial checkpoints left. speed_test.cpp has slow ranks.
#include "core/error.h"
#include "tests/system/cli/job.h"
#include "tests/system/cli/run_folder.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <regex>

namespace ddp::testing {
namespace {

namespace fs = std::filesystem;

struct Fault {
  const char* kind;
  const char* where;    // rank and step
  const char* options;  // additional
  std::vector<int> codes;
  std::vector<const char*> says;  // regular expressions that the error line matches
};

const std::vector<Fault> kFaults{
    {"kill", "rank=1,step=17", "", {9, 137}, {"rank 1 on host .* has died", "step 1[5-8]"}},
    {"exit", "rank=1,step=17", "", {1, 9}, {"rank 1 on host .* has died", "step 1[5-8]"}},
    {"hang", "rank=1,step=17", "--step-timeout 5", {9}, {"rank 1 on host .* has been in the data loader", "step 17"}},
    {"nan", "rank=1,step=17", "", {6}, {"step 17", "rank 1", "bucket 0"}},
    {"bitflip", "rank=1,step=17", "--check-every 5", {9}, {"9\\.weight is not the same", "hashes by rank"}}};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.kind; }

std::string options(const TempFolder& folder, const std::string& more) {
  return fmt::format(
      "--train-samples 1024 --batch-size 64 --max-steps 40 --eval-every 0 --print-freq 0 --save-every 10steps "
      "--output-dir {} {}",
      (folder / "run").string(), more);
}

// Sorted names.
std::vector<std::string> checkpoints(const TempFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder / "run" / "checkpoints"))
    if (!entry.is_symlink()) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

void expect_nothing_left(const Job& job) {
  EXPECT_TRUE(job.is_gone()) << job.output();
  EXPECT_FALSE(job.left_memory());
}

std::string error_line(const std::string& output) {
  std::smatch found;
  return std::regex_search(output, found, std::regex("ddp_train: [^\n]*error: [^\n]*")) ? found.str() : "";
}

// Every surviving rank wrote its flight record; with `all`, every rank did.
void expect_flight_recorders(const TempFolder& folder, bool all, int ranks, const std::string& output) {
  int written = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const fs::path path = folder / "run" / "flight" / fmt::format("rank-{}.json", rank);
    if (!fs::exists(path)) continue;
    ++written;
    const auto recorder = nlohmann::json::parse(read_file(path));
    EXPECT_EQ(recorder.at("format"), 2);
    EXPECT_EQ(recorder.at("rank"), rank);
    ASSERT_FALSE(recorder.at("events").empty()) << path;
    EXPECT_GE(recorder.at("events").back().at("step").get<int>(), 15) << path;
  }
  EXPECT_GE(written, all ? ranks : 1) << output;
}

class Injected : public ::testing::TestWithParam<std::tuple<Fault, int>> {};

TEST_P(Injected, EndsAsDocumented) {
  const auto& [fault, ranks] = GetParam();
  const TempFolder folder;
  Job job(folder, ranks,
          options(folder, fmt::format("{} --inject kind={},{}", fault.options, fault.kind, fault.where)));
  const int code = job.end();
  const std::string output = job.output(), error = error_line(output);
  EXPECT_NE(std::find(fault.codes.begin(), fault.codes.end(), code), fault.codes.end()) << code << "\n" << output;
  EXPECT_EQ(count(output, "error:"), 1) << output;
  for (const char* part : fault.says) EXPECT_TRUE(std::regex_search(error, std::regex(part))) << part << "\n" << output;
  if (std::string(fault.kind) == "bitflip" && ranks > 2) {
    EXPECT_EQ(count(error, "rank 1 differs from the others"), 1) << output;
  }
  expect_nothing_left(job);
  const bool by_all =
      fault.kind == std::string("nan") || fault.kind == std::string("bitflip") || fault.kind == std::string("hang");
  expect_flight_recorders(folder, by_all, ranks, output);
  EXPECT_EQ(checkpoints(folder).front(), "step-00000010") << output;
  for (const std::string& name : checkpoints(folder)) EXPECT_EQ(name.find("tmp"), std::string::npos) << name;
}

INSTANTIATE_TEST_SUITE_P(, Injected, ::testing::Combine(::testing::ValuesIn(kFaults), ::testing::Values(2, 4)),
                         [](const auto& test) {
                           return fmt::format("{}_np{}", std::get<0>(test.param).kind, std::get<1>(test.param));
                         });

// full_disk_test.cpp has a disk that is full.
TEST(FailedSave, LosesOneCheckpoint) {
  const TempFolder folder;
  Job job(folder, 2, options(folder, "--inject kind=enospc,step=20"));
  EXPECT_EQ(job.end(), 0) << job.output();
  EXPECT_EQ(count(job.output(), "warning: no checkpoint of step 20: "), 1) << job.output();
  EXPECT_EQ(checkpoints(folder), (std::vector<std::string>{"step-00000010", "step-00000030", "step-00000040"}));
  expect_nothing_left(job);
}

// Its signal 9 to itself has no effect.
TEST(Inject, EndsTheFirstProcessOfAContainer) {
  const TempFolder folder;
  const Outcome outcome = shell(fmt::format(
      "unshare --pid --fork true || exit 77; CUDA_VISIBLE_DEVICES= timeout -k 5 400 unshare --pid --fork {} {}",
      DDP_PROGRAM, options(folder, "--inject kind=kill,step=2")));
  if (outcome.code == 77) GTEST_SKIP() << "needs root and unshare: " << outcome.output;
  EXPECT_EQ(outcome.code, 128 + SIGKILL) << outcome.output;
}

TEST(Inject, IsRefusedIfNoRankMatches) {
  const TempFolder folder;
  const Outcome outcome = program(2, options(folder, "--inject kind=kill,rank=2"));
  EXPECT_EQ(outcome.code, static_cast<int>(Exit::usage)) << outcome.output;
  EXPECT_EQ(count(outcome.output, "there are 2 ranks"), 1) << outcome.output;
}

}  // namespace
}  // namespace ddp::testing
