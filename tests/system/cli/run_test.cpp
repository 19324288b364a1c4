// The results of a run, and their independence of the world size.
#include "core/error.h"
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/run_folder.h"

#include <algorithm>
#include <regex>
#include <set>
#include <vector>

namespace ddp::testing {
namespace {

using nlohmann::json;

// The options for a few images, in a folder of these.
std::string of_few_images(const TempFolder& folder, uint32_t training = 64, uint32_t test = 10) {
  few_images(folder / "images", training, test);
  return fmt::format(" --data-path {} ", (folder / "images").string());
}

// At the default settings rounding makes the losses of two world sizes diverge. Step counts, sample order and the size
// of the evaluation are equal.
TEST(Run, CountsAndOrderDoNotDependOnTheWorldSize) {
  constexpr int kTraining = 1100, kTest = 300;
  const TempFolder folder;
  const std::string data = of_few_images(folder, kTraining, kTest);
  std::vector<int64_t> expected(kTraining / 256 + 1, 256);
  expected.back() = kTraining % 256;
  std::string order;
  for (const int ranks : {0, 3}) {
    const auto run = folder / fmt::format("run{}", ranks);
    const Outcome outcome = program(ranks, data + "--model mlp --epochs 1 --output-dir " + run.string());
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(values_of<int64_t>(run, "step", "samples"), expected) << ranks;
    const auto evaluations = events(run, "eval");
    ASSERT_EQ(evaluations.size(), 1u);
    EXPECT_EQ(evaluations[0].at("samples"), kTest);
    EXPECT_EQ(count(outcome.output, "(300/300 samples"), 1) << outcome.output;

    const Outcome printed = program(ranks, data + "--print-order 2");
    ASSERT_EQ(printed.code, 0);
    if (order.empty()) order = printed.output;
    EXPECT_EQ(printed.output.size(), order.size());
    EXPECT_TRUE(printed.output == order) << ranks;
  }
  std::istringstream lines(order);
  std::set<int64_t> seen;
  for (int64_t index; lines >> index;) seen.insert(index);
  EXPECT_EQ(seen.size(), size_t{kTraining});
  EXPECT_EQ(*seen.begin(), 0);
  EXPECT_EQ(*seen.rbegin(), kTraining - 1);
  EXPECT_FALSE(program(0, data + "--print-order 1").output == order);
}

TEST(Run, WritesItsResults) {
  const TempFolder folder;
  const auto run = folder / "run", again = folder / "again", more = folder / "more";
  const std::string data = of_few_images(folder, 2048, 1000);
  const Outcome outcome =
      program(2, data + "--max-steps 7 --lr 0.125 --seed 5 --allreduce ring --output-dir " + run.string());
  ASSERT_EQ(outcome.code, 0) << outcome.output;

  const auto steps = events(run, "step");
  ASSERT_EQ(steps.size(), 7u);
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].at("step"), i + 1);
    EXPECT_EQ(steps[i].at("epoch"), 1);
    EXPECT_EQ(steps[i].at("lr"), 0.125);
    EXPECT_NEAR(steps[i].at("loss"), 2.3, 0.1);
    for (const char* part : {"data_ms", "compute_ms", "exposed_comm_ms"}) EXPECT_GE(steps[i].at(part), 0.0) << part;
    EXPECT_GT(steps[i].at("compute_ms"), 0.0);
  }
  for (size_t i = 1; i < steps.size(); ++i) {
    const double period = 1e-6 * (steps[i].at("begin_ns").get<double>() - steps[i - 1].at("begin_ns").get<double>());
    EXPECT_GE(period, 0.999 * steps[i - 1].at("compute_ms").get<double>());
  }
  for (const char* stage : {"data", "plan", "restore"})
    EXPECT_GT(events(run, "run").front().at("start_seconds").at(stage), 0.0) << stage;
  const json summary = json::parse(read_file(run / "summary.json"));
  EXPECT_EQ(summary.at("parameters"), 129068);
  EXPECT_EQ(summary.at("world_size"), 2);
  EXPECT_GT(summary.at("samples_per_second"), 0.0);
  EXPECT_GT(summary.at("sec_per_epoch"), 0.0);
  EXPECT_FALSE(summary.at("device").get<std::string>().empty());
  EXPECT_GE(summary.at("speed").size(), 3u);
  for (const json& sentence : summary.at("speed"))
    EXPECT_EQ(count(outcome.output, sentence.get<std::string>() + "\n"), 1) << outcome.output;
  EXPECT_EQ(summary.at("test_accuracy"), events(run, "eval").back().at("accuracy"));
  EXPECT_EQ(count(outcome.output, "sec/epoch on 2 x " + summary.at("device").get<std::string>()), 1) << outcome.output;

  // config.toml reproduces the run; the command line overrides it.
  const std::string config = "--config " + (run / "config.toml").string();
  ASSERT_EQ(program(2, config + " --output-dir " + again.string()).code, 0);
  const auto repeated = events(again, "step");
  ASSERT_EQ(repeated.size(), 7u);
  for (size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i].at("loss"), repeated[i].at("loss"));
  EXPECT_TRUE(read_file(run / "model.safetensors") == read_file(again / "model.safetensors"));

  // --init-from loads model.safetensors, and it holds the trained weights.
  const std::string from = " --init-from " + (run / "model.safetensors").string();
  const Outcome continued = program(2, data + "--max-steps 1 --lr 0 --output-dir " + more.string() + from);
  ASSERT_EQ(continued.code, 0) << continued.output;
  EXPECT_TRUE(read_file(run / "model.safetensors") == read_file(more / "model.safetensors"));
  EXPECT_EQ(events(more, "eval").back().at("correct"), events(run, "eval").back().at("correct"));
}

// Values that a command line accepts and TOML does not, and text that looks like a number.
TEST(Run, ConfigurationRoundTrips) {
  const TempFolder folder;
  const std::string in_folder = "cd " + (folder / "").string() + " && ",
                    options = of_few_images(folder) + "--max-steps 1 --eval-every 0 ";
  const auto run = [&](const std::string& arguments) {
    return shell(in_folder + "timeout -k 5 400 " + DDP_PROGRAM + options + arguments);
  };
  const Outcome first = run("--lr .1 --seed 18446744073709551615 --rank-weights 2 --output-dir 007");
  ASSERT_EQ(first.code, 0) << first.output;
  const Outcome second = run("--config 007/config.toml --output-dir 7e1");
  ASSERT_EQ(second.code, 0) << second.output;
  const auto losses = [&](const std::string& name) { return events(folder / name, "step").at(0).at("loss"); };
  EXPECT_EQ(losses("007"), losses("7e1"));
  const Outcome refused = run("--config 007/config.toml");
  EXPECT_EQ(refused.code, 4) << refused.output;
  EXPECT_NE(refused.output.find("007 already has a run"), std::string::npos) << refused.output;
}

// CPUs are deterministic without --deterministic, at any number of threads.
TEST(Run, GivesTheSameBitsOnEveryRun) {
  std::set<std::string> weights;
  for (const std::string options : {"--threads 1", "--threads 1 --deterministic", "--threads 3"}) {
    const TempFolder folder;
    const Outcome outcome = program(2, options + of_few_images(folder, 512) +
                                           "--max-steps 10 --eval-every 0 --output-dir " + (folder / "run").string());
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    weights.insert(read_file(folder / "run" / "model.safetensors"));
  }
  EXPECT_EQ(weights.size(), 1u);
}

// Every build does this on a machine without a GPU.
TEST(Run, UsesTheCpuWithoutAGpuAndReportsIt) {
  const TempFolder folder;
  const Outcome outcome =
      program(1, of_few_images(folder) + "--max-steps 1 --eval-every 0 --output-dir " + (folder / "run").string());
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  int said = 0;
  for (const char* why : {"(no NVIDIA driver, or ", "(no GPU is visible", "(this program was built without CUDA)"})
    said += count(outcome.output, why);
  EXPECT_EQ(said, 1) << outcome.output;
}

TEST(Run, PlanPrintsBucketsMemoryAndTimes) {
  const TempFolder folder;
  const std::string plan = of_few_images(folder) + "--plan ";
  const Outcome outcome = program(2, plan + "--bucket-cap-mb 8");
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("129068 parameters in 3 buckets"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("memory of a rank"), std::string::npos);
  EXPECT_NE(outcome.output.find("predicted step"), std::string::npos);
  const std::string frozen = program(2, plan + "--bucket-cap-mb 8 --freeze 0,3,7").output;
  EXPECT_NE(frozen.find("1290 trained parameters in 2 buckets, launched in this order; 127778 more are frozen:"),
            std::string::npos)
      << frozen;
  const auto activations = [](const std::string& text) { return number_after(text, "activations "); };
  EXPECT_LT(activations(frozen), 0.7 * activations(outcome.output)) << frozen;
  EXPECT_NE(program(2, plan + "--bucket-cap-mb 0.05").output.find("in 5 buckets"), std::string::npos);
  EXPECT_NE(outcome.output.find("9.weight 9.bias\n"), std::string::npos) << outcome.output;
  const std::string alone = program(0, plan + "--first-bucket-mb 0.001").output;
  EXPECT_NE(alone.find("9.weight\n"), std::string::npos) << alone;
  const std::string measured = program(2, plan + "--batch-size 1").output;  // rank 1 has no sample
  for (const char* text : {"runs from ", "link: latency ", "predicted exposed communication: "}) {
    EXPECT_NE(measured.find(text), std::string::npos) << measured;
    EXPECT_EQ(alone.find(text), std::string::npos) << alone;
  }
}

// The second pool of LeNet reads 8 x 8 positions of the 9 x 9 that its convolution could give.
TEST(Run, LayerTimesPrintsTheLayersThatRun) {
  const TempFolder folder;
  const std::string run = (folder / "run").string();
  const std::string times = of_few_images(folder) + "--bucket-cap-mb 8 --output-dir " + run + " --layer-times ";
  const Outcome outcome = program(2, times);
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_FALSE(std::filesystem::exists(run));
  EXPECT_EQ(count(outcome.output, "lenet: 32 samples on rank 0 of 2, activations in f32; medians of "), 1);
  const std::string number = R"( +[0-9.]+ \|)", share = R"( +[0-9]+ % \|)", none = R"( + \|)";
  const std::string product = number + number + share + share, no_pass = none + none + none + none;
  const std::string copies = number + none + none + share;
  for (const std::string& row :
       {R"(\| input +\| normalize +\| 26 x 26 x 1 +\|)" + copies + no_pass + no_pass,
        R"(\| 0 +\| conv2d 20, 3 x 3 \+ relu +\| 24 x 24 x 20 +\|)" + product + product + no_pass,
        R"(\| 3 +\| conv2d 50, 5 x 5 \+ relu +\| 8 x 8 x 50 +\|)" + product + product + product,
        R"(\| convolution +\| 2 +\| [0-9]+ % +\|)" + product + product + product,
        R"(\| pool +\| 2 +\| [0-9]+ % +\|)" + copies + no_pass + copies}) {
    EXPECT_TRUE(std::regex_search(outcome.output, std::regex("\n" + row + "\n"))) << row << "\n" << outcome.output;
  }

  const Outcome other = program(2, times + "--plan");
  EXPECT_EQ(other.code, 2) << other.output;
  EXPECT_EQ(count(other.output, "--layer-times excludes --plan, --print-order and --doctor"), 1) << other.output;
  const Outcome empty = program(2, times + "--rank-weights 1,1000");
  EXPECT_EQ(empty.code, 2) << empty.output;
  EXPECT_EQ(count(empty.output, "--layer-times: rank 0 has no sample of the first batch"), 1) << empty.output;
}

TEST(Run, HelpIsPrintedOnce) {
  const Outcome outcome = program(3, "--help");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(count(outcome.output, "\n  --batch-size "), 1) << outcome.output;
}

// Sets round in different ways, so other weights show that the option reaches our kernels (lenet) and oneDNN
// (resnet18).
TEST(Run, InstructionSetOfTheCpuIsLimited) {
  const TempFolder folder;
  const std::string data = of_few_images(folder);
  // The weights after a step, or nothing if this processor lacks the set.
  const auto weights = [&](const std::string& model, const std::string& set) -> std::string {
    const auto run = folder / (model + set);
    const Outcome outcome =
        program(0, fmt::format("--device cpu --model {} --cpu-isa {} --batch-size 2 --max-steps 1 --eval-every 0 "
                               "--save-every never --output-dir {} {}",
                               model, set, run.string(), data));
    if (outcome.code == static_cast<int>(Exit::device)) {
      EXPECT_EQ(count(outcome.output, "--cpu-isa " + set), 1) << outcome.output;
      return "";
    }
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(count(outcome.output, "limited to " + set), set == "base" || set == "v3" ? 1 : 0) << outcome.output;
    return read_file(run / "model.safetensors");
  };
  const std::string base = weights("lenet", "base"), v3 = weights("lenet", "v3"), v4 = weights("lenet", "v4");
  EXPECT_TRUE(weights("lenet", "auto") == (v4.empty() ? v3.empty() ? base : v3 : v4));
  EXPECT_TRUE(v3.empty() || v3 != base);
  EXPECT_TRUE(weights("resnet18", "v3") != weights("resnet18", v4.empty() ? "base" : "v4"));
  if (v4.empty()) GTEST_SKIP() << "this processor has no v4";
}

}  // namespace
}  // namespace ddp::testing
