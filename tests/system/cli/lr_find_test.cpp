// ddp_train lr-find: its steps are those of a run, its suggestion is one for all ranks, and it leaves one page.
#include "core/error.h"
#include "tests/system/cli/job.h"
#include "tests/system/cli/option_runs.h"

#include <map>
#include <set>

namespace ddp::testing {
namespace {

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

// Of all files below `folder`.
std::map<std::string, std::string> contents_of(const fs::path& folder) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    contents[entry.path().string()] = entry.is_regular_file() ? read_file(entry.path()) : "";
  return contents;
}

// The rates ("x") or the smoothed losses ("y") of the page's plot.
std::vector<double> series_of(const fs::path& page, const char* key) {
  const std::string text = read_file(page), open = "<script type=\"application/json\">";
  const size_t begin = text.find(open) + open.size();
  return nlohmann::json::parse(text.substr(begin, text.find("</script>", begin) - begin)).at("series").at(0).at(key);
}

class LrFind : public OptionRuns {
 protected:
  Outcome find(const std::string& options, int ranks = 0) const {
    const std::string run = ranks == 0 ? DDP_PROGRAM : fmt::format("{} -np {} {}", DDP_MPIRUN, ranks, DDP_PROGRAM);
    return shell(fmt::format("cd {} && CUDA_VISIBLE_DEVICES= timeout -k 5 400 {} lr-find {}", place_.path().string(),
                             run, options));
  }
  std::string common() const { return fmt::format("--config {} ", (folder_ / "common.toml").string()); }
  fs::path page() const { return place_ / "lr-find.html"; }

  TempFolder place_;  // where the command runs
};

TEST_F(LrFind, SuggestsTheSameRateOnAnyNumberOfRanks) {
  few_images(folder_ / "more", 4096, 16);
  std::vector<double> rates;
  for (const int ranks : {0, 2, 3}) {
    const Outcome outcome =
        find(fmt::format("--data-path {} --batch-size 128 --threads 1 --group '*.bias:lr=0.4' --head-lr 0.2",
                         (folder_ / "more").string()),
             ranks);
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(count(outcome.output, "suggestion: --lr"), 1) << outcome.output;
    rates.push_back(number_after(outcome.output, "suggestion: --lr "));
    // With the default rate of 0.2, that of the group is twice --lr.
    EXPECT_NEAR(number_after(outcome.output, "'.*\\.bias:lr="), 2 * rates.back(), 0.1 * rates.back());
    EXPECT_EQ(number_after(outcome.output, "' --head-lr "), rates.back()) << outcome.output;
    EXPECT_EQ(names_in(place_.path()), (std::set<std::string>{"lr-find.html"}));
  }
  const double factor = std::pow(1e8, 1.0 / 99);  // of a step of the range
  for (const double rate : rates) {
    EXPECT_GE(rate, 0.01);
    EXPECT_LE(rate, 1);
    EXPECT_LE(std::max(rate / rates[0], rates[0] / rate), factor * factor * 1.1);
  }
}

// The first steps of both have the same weights, and then the same rate.
TEST_F(LrFind, TrainsAsARunAndLeavesItAlone) {
  const std::string two = "--max-steps 2 --lr 0.5 --print-freq 1 ", mixed = "--mixup-alpha 1 ";
  const fs::path earlier = run(two + mixed).folder;
  const auto before = contents_of(earlier);
  for (const std::string& from : {mixed, "--label-weights balanced --init-from " + earlier.string()}) {
    const Outcome outcome = find(common() + from + " --steps 20 --from 0.5 --to 2");
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    const std::vector<double> smoothed = series_of(page(), "y");  // to five digits
    const auto losses = run(two + from).steps<double>("loss");
    EXPECT_NEAR(smoothed.at(0), losses.at(0), 1e-4 * losses[0]) << from;
    EXPECT_NEAR(smoothed.at(1), (0.98 * losses[0] + losses.at(1)) / 1.98, 1e-4 * losses[0]) << from;
    EXPECT_NEAR(series_of(page(), "x").at(0), 0.5, 1e-9);
  }
  EXPECT_EQ(contents_of(earlier), before);
  EXPECT_EQ(names_in(place_.path()), (std::set<std::string>{"lr-find.html"}));
}

TEST_F(LrFind, EndsWhereTheLossExplodes) {
  const Outcome outcome = find(common() + "--from 1 --to 1e30 --steps 50", 2);
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count(outcome.output, "of 50 steps, learning rates from 1 to "), 1) << outcome.output;
  EXPECT_EQ(count(outcome.output, "no suggestion: the smoothed loss never falls by more than its noise"), 1)
      << outcome.output;
  const Outcome infinite = find(common() + "--from 1e30 --to 1e38 --steps 20", 2);
  EXPECT_EQ(infinite.code, 0) << infinite.output;
  EXPECT_EQ(count(infinite.output, "then the loss or a gradient was not finite"), 1) << infinite.output;
}

TEST_F(LrFind, RefusesOtherFilesAndOptions) {
  const auto refused = [&](const std::string& options, Exit code, const std::string& message) {
    const Outcome outcome = find(common() + options);
    EXPECT_EQ(outcome.code, static_cast<int>(code)) << options << ": " << outcome.output;
    EXPECT_EQ(count(outcome.output, message), 1) << options << ": " << outcome.output;
  };
  for (const char* option : {"--lr 0.1", "--lr-scale linear", "--epochs 2", "--output-dir x", "--save-every never",
                             "--inject x", "--model-ema", "--early-stop=2"})
    refused(option, Exit::usage, "lr-find does not use --");
  refused("--from 1 --to 0.1", Exit::usage, "--from 1 must be below --to, which is 0.1");
  refused("--output a.png", Exit::usage, "must end in .html");
  refused("--output none/a.html", Exit::output, "--output: there is no folder none; create it");
  place_.write("foreign.html", "<html>mine</html>");
  refused("--output foreign.html", Exit::output, "foreign.html exists and is no page of ddp_train");
  fs::create_symlink("target.html", place_ / "link.html");
  refused("--output link.html", Exit::output, "link.html");
  EXPECT_EQ(names_in(place_.path()), (std::set<std::string>{"foreign.html", "link.html"}));
  EXPECT_EQ(read_file(place_ / "foreign.html"), "<html>mine</html>");
}

TEST_F(LrFind, StopsOnASignal) {
  Job job(folder_, 2, fmt::format("lr-find {} --steps 1000000 --to 1e-6 --output {}", common(), page().string()));
  ASSERT_TRUE(job.says("64 training and 32 test samples")) << job.output();
  ::kill(job.rank(0), SIGUSR1);
  EXPECT_EQ(job.end(), static_cast<int>(Exit::stopped)) << job.output();
  EXPECT_EQ(count(job.output(), "SIGUSR1: lr-find stops and writes nothing"), 1) << job.output();
  EXPECT_TRUE(names_in(place_.path()).empty());
}

}  // namespace
}  // namespace ddp::testing
