// ddp_train plan: a run writes its profile, from which the command predicts a larger cluster.
#include "core/error.h"
#include "tests/report/expect_xml.h"
#include "tests/system/cli/job.h"
#include "tests/system/cli/option_runs.h"

namespace ddp::testing {
namespace {

using nlohmann::json;

class Plan : public OptionRuns {
 protected:
  Outcome plan(const std::string& options) const { return program(0, "plan " + options); }
};

TEST_F(Plan, PredictsAClusterFromTwoRanks) {
  const Run& two = run("--max-steps 12", 2);
  const json profile = json::parse(read_file(two.folder / "profile.json"));
  EXPECT_EQ(profile.at("ranks"), 2);
  EXPECT_EQ(profile.at("hosts"), 1);
  EXPECT_EQ(profile.at("batch"), kBatch);
  EXPECT_EQ(profile.at("shard"), kBatch / 2);
  EXPECT_EQ(profile.at("parameters").size(), profile.at("costs").at("ready_ms").size());
  EXPECT_GT(profile.at("compute_ms"), 0);
  EXPECT_GE(profile.at("costs").at("link_ms_per_mib"), 0);

  const fs::path drawing = folder_ / "efficiency.svg";
  const std::string cluster = fmt::format(
      "--profile {} --world 1024 --latency-us 5 --bandwidth-gbs 25 --ranks-per-host 8", two.folder.string());
  const Outcome outcome = plan(fmt::format("{} --simulate --svg {}", cluster, drawing.string()));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count(outcome.output, "\n 1024    128   8192 "), 1) << outcome.output;
  EXPECT_EQ(count(outcome.output, "memory of a rank: "), 1) << outcome.output;
  EXPECT_EQ(count(outcome.output, drawing.string()), 1) << outcome.output;
  const std::string svg = read_file(drawing);
  report::expect_xml(svg);
  EXPECT_EQ(count(svg, "<circle"), 2 * 11);

  // An existing file stays; the profile itself can be named; the network decides.
  const Outcome again = plan(fmt::format("{} --svg {}", cluster, drawing.string()));
  EXPECT_EQ(again.code, static_cast<int>(Exit::output)) << again.output;
  EXPECT_EQ(read_file(drawing), svg);
  const Outcome slow = plan(fmt::format("--profile {} --world 16 --latency-us 1e6 --bandwidth-gbs 1 --ranks-per-host 8",
                                        (two.folder / "profile.json").string()));
  ASSERT_EQ(slow.code, 0) << slow.output;
  EXPECT_GE(number_after(slow.output, "\n   16      2    128 +"), 2000) << slow.output;
}

// One rank has not measured what its parts cost, and a stop does not wait for that.
TEST_F(Plan, HasNoProfileOfAStopThatWouldHaveToMeasure) {
  Job job(folder_, 1,
          fmt::format("--config {} --print-freq 1 --epochs 100000 --output-dir {}", (folder_ / "common.toml").string(),
                      (folder_ / "stopped").string()));
  ASSERT_TRUE(job.says("step 4/4")) << job.output();
  ::kill(job.rank(0), SIGTERM);
  EXPECT_EQ(job.end(), static_cast<int>(Exit::stopped)) << job.output();
  EXPECT_FALSE(fs::exists(folder_ / "stopped" / "profile.json"));
}

TEST_F(Plan, NamesWhatIsMissing) {
  const Run& one = run("--max-steps 4");
  const std::string profile = fmt::format("--profile {} ", one.folder.string());
  const Outcome network = plan(profile + "--world 2"), inside = plan(profile +
                                                                     "--world 4 --ranks-per-host 2 "
                                                                     "--latency-us 5 --bandwidth-gbs 1");
  EXPECT_EQ(network.code, static_cast<int>(Exit::usage));
  EXPECT_EQ(count(network.output, "give --latency-us and --bandwidth-gbs"), 1) << network.output;
  EXPECT_EQ(inside.code, static_cast<int>(Exit::usage));
  EXPECT_EQ(count(inside.output, "give --host-latency-us and --host-bandwidth-gbs"), 1) << inside.output;
  EXPECT_EQ(plan(profile + "--world 2 --latency-us 5 --bandwidth-gbs 1").code, 0);
  const Outcome help = plan("--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(count(help.output, "--ranks-per-host"), 1);

  // The collectives of several ranks on each of several hosts have both links in them.
  json hosts = json::parse(read_file(one.folder / "profile.json"));
  hosts["ranks"] = 4;
  hosts["hosts"] = hosts["ranks_per_host"] = 2;
  folder_.write("hosts.json", hosts.dump());
  const std::string larger =
      fmt::format("--profile {} --world 8 --host-latency-us 5 --host-bandwidth-gbs 1 --allreduce ",
                  (folder_ / "hosts.json").string());
  const Outcome both = plan(larger + "nccl");
  EXPECT_EQ(both.code, static_cast<int>(Exit::usage));
  EXPECT_EQ(count(both.output, "no link between hosts alone: give --latency-us"), 1) << both.output;
  EXPECT_EQ(plan(larger + "shm").code, 0);

  fs::remove(one.folder / "profile.json");
  const Outcome missing = plan(profile + "--world 1");
  EXPECT_EQ(missing.code, static_cast<int>(Exit::data));
  EXPECT_EQ(count(missing.output, "profile.json does not exist"), 1) << missing.output;
  folder_.write("broken.json", "{\"format\": 1}");
  const Outcome broken = plan(fmt::format("--profile {} --world 1", (folder_ / "broken.json").string()));
  EXPECT_EQ(broken.code, static_cast<int>(Exit::data));
  EXPECT_EQ(count(broken.output, "broken.json has no \"network\""), 1) << broken.output;
}

}  // namespace
}  // namespace ddp::testing
