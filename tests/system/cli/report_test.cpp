// ddp_train report, on runs of the program.
#include "core/error.h"
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/job.h"

namespace ddp::testing {
namespace {

namespace fs = std::filesystem;

class Report : public ::testing::Test {
 protected:
  Report() { few_images(folder / "images", 600, 100); }
  std::string tiny() const { return fmt::format("--data-path {} --batch-size 100", (folder / "images").string()); }
  Outcome train(int ranks, const std::string& name, const std::string& options) const {
    return program(ranks, fmt::format("{} --save-every never --print-freq 0 --output-dir {} {}", tiny(),
                                      (folder / name).string(), options));
  }
  Outcome report(const std::string& arguments) const {
    return shell(fmt::format("cd {} && {} report {}", folder.path().string(), DDP_PROGRAM, arguments));
  }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

  const TempFolder folder;
};

TEST_F(Report, SetsOneRankBesideTwo) {
  ASSERT_EQ(train(0, "one", "--epochs 2").code, 0);
  ASSERT_EQ(train(2, "two", "--epochs 2 --momentum 0.5").code, 0);
  const Outcome outcome = report("one two/");
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(outcome.output, "one/report.html\n");
  const std::string page = read_file(folder / "one" / "report.html");
  EXPECT_LT(page.size(), 100'000u);
  for (const char* part : {"<h1>2 runs</h1>", "one, training", "two, test", "times as fast as one", "rank 1: computing",
                           "<th scope=\"row\">momentum</th><td>0</td><td>0.5</td>", "<b>two</b> <span>rows: true class",
                           "(2 ranks)", "oneDNN ", "Open MPI v"})
    EXPECT_TRUE(has(page, part)) << part;
  EXPECT_EQ(count(page, "<td>complete</td>") + count(page, "<td class=\"n\">complete</td>"), 2);

  const Outcome csv = shell(fmt::format("{} report --csv {}", DDP_PROGRAM, (folder / "two").string()));
  EXPECT_EQ(csv.code, 0);
  EXPECT_EQ(count(csv.output, "\ntwo,step,"), 12);
  EXPECT_EQ(count(csv.output, "\ntwo,eval,"), 2);
  EXPECT_EQ(count(csv.output, "\ntwo,speed,"), 4);
  const Outcome head = shell(fmt::format("{} report --csv {} | head -1", DDP_PROGRAM, (folder / "two").string()));
  EXPECT_EQ(head.output.find("run,kind,step,epoch,rank,loss"), 0u) << head.output;
}

TEST_F(Report, OfARunThatGoesOnIsKilledAndIsResumed) {
  const std::string run = (folder / "run").string(),
                    options = fmt::format("{} --epochs 100000 --print-freq 1 --save-every 1epochs", tiny());
  {
    Job job(folder, 1, fmt::format("{} --output-dir {}", options, run));
    ASSERT_TRUE(job.says("epoch 3/")) << job.output();
    const Outcome outcome = report("run --output going.html");
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    const std::string page = read_file(folder / "going.html");
    for (const char* part : {"goes on, or was stopped", "of 100,000", "id=\"loss\"", "id=\"accuracy\"", "rank 0"})
      EXPECT_TRUE(has(page, part)) << part;
    EXPECT_FALSE(has(page, "rows: true class"));
    ::kill(job.rank(0), SIGKILL);
    job.end();
  }
  EXPECT_EQ(report("run").code, 0);
  const std::string killed = read_file(folder / "run" / "report.html");
  EXPECT_TRUE(has(killed, "goes on, or was stopped"));
  EXPECT_EQ(count(killed, "(1 rank)"), 1);
  Job job(folder, 1, fmt::format("{} --resume {}", options, run));
  ASSERT_TRUE(job.says("test acc")) << job.output();
  EXPECT_EQ(report("run").code, 0);
  EXPECT_EQ(count(read_file(folder / "run" / "report.html"), "(1 rank)"), 2) << "a row for each process of the run";
}

TEST_F(Report, SaysWhatIsWrong) {
  folder.write("run/metrics.jsonl", "");
  folder.write("target.html", "mine");
  fs::create_directories(folder / "none");
  fs::create_symlink("target.html", folder / "link.html");
  fs::create_directories(folder / "folder.html");
  const struct {
    const char* arguments;
    Exit code;
    const char* says;
  } cases[] = {
      {"", Exit::usage, "RUNS is required"},
      {"run --output page.txt", Exit::usage, "the name must end in .html"},
      {"run --csv --output page.html", Exit::usage, "--output excludes --csv"},
      {"missing", Exit::data, "missing does not exist; give the --output-dir of a training"},
      {"run none", Exit::data, "none is no folder of a run: it has no metrics.jsonl"},
      {"run --output link.html", Exit::output, "link.html is a link"},
      {"run --output folder.html", Exit::output, "folder.html is no file"},
      {"run --output missing/page.html", Exit::output, "missing/"},
  };
  for (const auto& [arguments, code, says] : cases) {
    const Outcome outcome = report(arguments);
    EXPECT_EQ(outcome.code, static_cast<int>(code)) << arguments << ": " << outcome.output;
    EXPECT_TRUE(has(outcome.output, says)) << arguments << ": " << outcome.output;
    EXPECT_EQ(count(outcome.output, "\n"), 1) << outcome.output;
  }
  EXPECT_EQ(read_file(folder / "target.html"), "mine");
  EXPECT_EQ(report("run").code, 0) << "a run that has just begun";
  folder.write("run/config.toml", "lr = \n");
  const Outcome broken = report("run");
  EXPECT_EQ(broken.code, static_cast<int>(Exit::data));
  EXPECT_TRUE(has(broken.output, "run/config.toml: configuration file, line 1")) << broken.output;
  EXPECT_TRUE(has(report("--help").output, "--output"));
}

}  // namespace
}  // namespace ddp::testing
