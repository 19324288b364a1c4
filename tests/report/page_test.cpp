#include "report/page.h"

#include "report/plot.h"
#include "tests/report/page_text.h"
#include "tests/report/run_folder.h"

#include <gtest/gtest.h>

namespace ddp::report {
namespace {

std::string page_of(const std::vector<RunRecord>& runs) { return page(runs, kInfo); }

size_t place(const std::string& text, const std::string& part) {
  const size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return at;
}

TEST(ReportPage, ShowsARun) {
  const std::string text = page_of({RunFolder().read()});
  for (const char* part :
       {"<h1>lenet on mnist</h1>", "complete", "20 steps, epoch 2 of 2", "<dd>0.8</dd>", "id=\"loss\"",
        "id=\"accuracy\"", "id=\"throughput\"", "id=\"noise\"", "The learning rate is constant: 0.5.",
        "rank 1: computing 8 ms (78 %)", "cat: 3 predicted as dog (50 %)", "computing limits this run",
        "h1 (1 rank), h2 (1 rank)", "oneDNN 2", "--trace FILE", "made by ddp_train 1.2.3"})
    EXPECT_TRUE(has(text, part)) << part;
}

TEST(ReportPage, NamesTheBestEpochBesideTheLast) {
  RunRecord run = RunFolder().read();
  EXPECT_FALSE(has(page_of({run}), "<dd class=\"best\">"));
  run.evaluations.back().accuracy = 0.3;
  EXPECT_TRUE(has(page_of({run}), "<dd>0.3</dd><dd class=\"best\">best 0.4, epoch 1</dd>"));
  EXPECT_TRUE(has(page_of({run, run}), "<td class=\"n\">0.4, epoch 1</td>"));
  run.evaluations[1].accuracy = 0.4;
  EXPECT_FALSE(has(page_of({run}), "<dd class=\"best\">"));
  for (EvalEvent& eval : run.evaluations) eval.accuracy = kUnknown;
  EXPECT_FALSE(has(page_of({run}), "<dd class=\"best\">"));
}

TEST(ReportPage, TellsTheEarlyEndAndTheAverage) {
  const RunFolder folder;
  EXPECT_FALSE(has(page_of({folder.read()}), "EMA"));
  folder.folder.write("summary.json",
                      R"({"steps":20,"early_stop":{"epoch":2,"evaluations":1,"best_accuracy":0.4,"best_epoch":1}})");
  RunRecord run = folder.read();
  run.evaluations.back().ema_accuracy = 0.85;
  const std::string text = page_of({run});
  EXPECT_TRUE(
      has(text, "ended early after epoch 2: evaluations in a row without a better accuracy than 0.4 of epoch 1: 1"));
  EXPECT_TRUE(has(text, "<dd class=\"best\">EMA 0.85</dd>"));
  folder.folder.write("summary.json", R"({"steps":20,"early_stop":[1]})");
  EXPECT_FALSE(has(page_of({folder.read()}), "ended early"));
}

// A run on tokens: its loss falls from 4 to 2 and rises to 3.
class TokenRunFolder {
 public:
  explicit TokenRunFolder(double step_ms = 500) {
    std::string metrics = R"({"event":"run","step":0,"model":"gpt-tiny","data":"tokens","epochs":3,)"
                          R"("steps_per_epoch":2,"world_size":1})"
                          "\n";
    for (int step = 1; step <= 6; ++step) {
      metrics += fmt::format(R"({{"event":"step","step":{0},"epoch":{1},"loss":4,"lr":0.1,"samples":4,"tokens":1024,)"
                             R"("data_ms":0,"compute_ms":{2},"exposed_comm_ms":0}})"
                             "\n",
                             step, (step + 1) / 2, step_ms);
      if (step % 2 == 0)
        metrics += fmt::format(R"({{"event":"eval","epoch":{0},"step":{1},"accuracy":0.{0},"correct":9,"samples":10,)"
                               R"("loss":{2},"tokens":2560,"perplexity":{3},"seconds":1}})"
                               "\n",
                               step / 2, step,
                               step == 2       ? 4
                               : step / 2 == 2 ? 2
                                               : 3,
                               step == 2 ? 54.6 : 20.1);
    }
    folder.write("metrics.jsonl", metrics);
    folder.write("summary.json",
                 R"({"model":"gpt-tiny","test_accuracy":0.3,"best_accuracy":null,"tokens_per_second":2048.0,)"
                 R"("samples_per_second":8.0,"steps":6,"test_loss":3.0,"perplexity":20.1,"best_loss":2.0,)"
                 R"("early_stop":{"epoch":3,"evaluations":1,"best_loss":2.0,"best_epoch":2}})");
  }
  RunRecord read(const std::string& name = "one") const { return read_run(folder.path(), name, {}); }

  const TempFolder folder;
};

TEST(ReportPage, ShowsARunOnTokens) {
  RunRecord run = TokenRunFolder().read();
  run.evaluations.back().ema_loss = 2.5;
  const std::string text = page_of({run});
  for (const char* part :
       {"<dt>test loss</dt><dd>3</dd><dd class=\"best\">best 2, epoch 2</dd><dd class=\"best\">EMA 2.5</dd>",
        "<dt>perplexity</dt><dd>20.1</dd></div>", "<dt>test accuracy</dt><dd>0.3</dd></div>",
        "<dt>tokens/s</dt><dd>2,048</dd>", "<dt>samples/s</dt><dd>8</dd>", "id=\"perplexity\"", "id=\"loss\"",
        "<span>tokens/s</span>", "<th scope=\"col\" class=\"n\">perplexity</th>",
        "in a row without a lower loss than 2 of epoch 2: 1"})
    EXPECT_TRUE(has(text, part)) << part;
  EXPECT_FALSE(has(text, "<h2>Classes</h2>"));
  const std::string pictures = page_of({RunFolder().read()});
  for (const char* part : {"perplexity", "tokens"}) EXPECT_FALSE(has(pictures, part)) << part;
}

TEST(ReportPage, SetsRunsOnTokensSideBySide) {
  RunRecord slow = TokenRunFolder().read("slow"), fast = TokenRunFolder(250).read("fast");
  fast.summary.reset();  // it goes on
  const std::string text = page_of({slow, fast});
  for (const char* part : {"<th scope=\"row\">tokens/s</th><td class=\"n\">2,048</td><td class=\"n\">4,096</td>",
                           "<th scope=\"row\">times as fast as slow</th><td class=\"n\">1</td><td class=\"n\">2</td>",
                           "<th scope=\"row\">best test loss</th><td class=\"n\">2, epoch 2</td>",
                           "<th scope=\"row\">perplexity</th><td class=\"n\">20.1</td>"})
    EXPECT_TRUE(has(text, part)) << part;
  EXPECT_TRUE(has(page_of({slow, RunFolder().read("pictures")}), "<span>samples/s</span>"));
}

TEST(ReportPage, MarksChangedOptionsOnTheCurves) {
  const RunFolder folder;
  EXPECT_FALSE(has(page_of({folder.read()}), "class=\"change"));
  folder.folder.write("changes.json", R"([{"step":10,"option":"--lr","from":"0.5","to":"0.1<b>"},)"
                                      R"({"step":500,"option":"--epochs","from":"","to":"9"}])");
  const std::string text = page_of({folder.read()});
  EXPECT_TRUE(has(text,
                  "Changed: --lr was 0.5, is 0.1&lt;b&gt; after step 10; --epochs was not set, is 9 after step "
                  "500."));
  // At step 10 of 0 to 20, in the middle; step 500 lies outside of the axis.
  const std::string mark =
      "<path class=\"change s2\" d=\"M264 12V212\"><title>--lr was 0.5, is 0.1&lt;b&gt;</title></path>";
  size_t marks = 0;
  for (size_t at = 0; (at = text.find("class=\"change", at)) != text.npos; ++at) ++marks;
  EXPECT_TRUE(has(text, mark));
  EXPECT_EQ(marks, 4u);  // loss, accuracy, throughput, noise scale
  EXPECT_TRUE(has(page_of({folder.read("one"), folder.read("two")}), "class=\"change s1\""));
}

TEST(ReportPage, AsksTheNetworkForNothing) {
  const std::string text = page_of({RunFolder().read()});
  EXPECT_TRUE(has(text, "default-src 'none'; style-src 'nonce-abc123'; script-src 'nonce-abc123'"));
  for (const char* part : {"src=", "href=", "url(", "@import", "style=", "onload="})
    EXPECT_FALSE(has(text, part)) << part;
  std::string rest = text;
  for (size_t at = 0; (at = rest.find("http://www.w3.org/2000/svg", at)) != std::string::npos;) rest.erase(at, 4);
  EXPECT_FALSE(has(rest, "http:") || has(rest, "https:"));
}

TEST(ReportPage, EscapesTheTextOfStrangers) {
  const std::string evil = "</script><script>alert(1)</script>\"'<!--";
  RunRecord run = RunFolder().read(evil, {{evil, evil}});
  run.confusion->classes[0] = run.summary->classes[0].name = run.summary->speed[0] = run.summary->model = evil;
  run.processes[0].hosts[0] = evil;
  for (auto& [name, fact] : run.processes[0].facts) fact = evil;
  run.timeline = TimelineEvent{.step = 1, .ms = 1, .ranks = {{.rank = 0, .spans = {{evil, evil, 0, 1}}}}};
  for (const std::string& text : {page_of({run}), page_of({run, run})}) {
    EXPECT_FALSE(has(text, "alert(1)</script>"));
    EXPECT_FALSE(has(text, "<!--"));
    EXPECT_FALSE(has(text, "\"'<"));
    EXPECT_TRUE(has(text, "&lt;/script&gt;&lt;script&gt;alert(1)"));
  }
}

TEST(ReportPage, SetsRunsSideBySide) {
  const RunFolder folder;
  std::vector<RunRecord> runs = {
      folder.read("one", {{"lr", "0.5"}, {"epochs", "2"}, {"output-dir", "a"}}),
      folder.read("four", {{"lr", "0.5"}, {"epochs", "3"}, {"output-dir", "b"}, {"zero", "1"}})};
  const std::string text = page_of(runs);
  EXPECT_TRUE(has(text, "<h1>2 runs</h1>"));
  const size_t rest = place(text, "Options with one value");
  EXPECT_LT(place(text, "<th scope=\"row\">epochs</th><td>2</td><td>3</td>"), rest);
  EXPECT_LT(place(text, "<th scope=\"row\">zero</th><td>–</td><td>1</td>"), rest);
  EXPECT_GT(place(text, "<th scope=\"row\">lr</th><td>0.5</td>"), rest);
  EXPECT_FALSE(has(text, "output-dir"));
  EXPECT_TRUE(has(text, "four, training"));
  EXPECT_TRUE(has(text, "times as fast as one"));
}

TEST(ReportPage, EpochsOfDifferentLengthsShareAnAxis) {
  const RunFolder folder;
  std::vector<RunRecord> runs = {folder.read("one"), folder.read("two")};
  EXPECT_TRUE(has(page_of(runs), "\"name\":\"step\""));
  runs[1].processes[0].steps_per_epoch = 5;
  const std::string text = page_of(runs);
  EXPECT_FALSE(has(text, "\"name\":\"step\""));
  EXPECT_TRUE(has(text, "\"name\":\"two, test\",\"colour\":1,\"x\":[2,4]"));
}

TEST(ReportPage, ShowsARunThatHasJustBegun) {
  const TempFolder folder;
  folder.write("metrics.jsonl", "");
  const std::string text = page_of({read_run(folder.path(), "new", {})});
  EXPECT_TRUE(has(text, "no step yet"));
  EXPECT_TRUE(has(text, "No step has been recorded yet."));
  EXPECT_TRUE(has(text, "goes on, or was stopped"));
}

// A million steps, and as many evaluations and classes as the page shows: the page stays small.
TEST(ReportPage, IsSmallForLongRuns) {
  RunRecord run = RunFolder().read();
  for (int i = 0; i < 1'000'000; ++i)
    run.loss.add(i, 1.0 / (i + 1)), run.lr.add(i, i), run.throughput.add(i, 1000 + i % 7);
  run.evaluations.assign(RunRecord::kMostEvents, run.evaluations[0]);
  for (size_t i = 0; i < run.evaluations.size(); ++i) run.evaluations[i].step = static_cast<int64_t>(50 * i);
  run.confusion->classes.assign(40, "a long name of a class");
  run.confusion->counts.assign(1600, 12);
  const std::string endless(1 << 20, 'x');
  run.processes[0].hosts[0] = run.summary->speed[0] = run.summary->model = run.summary->classes[0].name = endless;
  for (auto& [name, fact] : run.processes[0].facts) fact = endless;
  run.options[0].second = run.confusion->classes[0] = endless;
  run.timeline = TimelineEvent{.step = 1, .ms = 1, .ranks = {{.rank = 0, .spans = {{endless, endless, 0, 1}}}}};
  const size_t bytes = page_of({run}).size();
  EXPECT_LT(bytes, 500'000u);
  EXPECT_GT(bytes, 100'000u);
}

TEST(ReportPlot, WithoutPointsThereIsNone) {
  Plot plot{.id = "x", .title = "x", .unit = "", .note = "", .series = {{.name = "a", .points = {}}}};
  EXPECT_EQ(draw(plot), "");
  plot.series.push_back({.name = "b", .points = {{.x = 1, .y = 2, .low = 2, .high = 2}}});
  EXPECT_TRUE(has(draw(plot), "<circle"));
  EXPECT_FALSE(has(draw(plot), "nan"));
}

TEST(ReportPlot, ValuesOfManySizesHaveALogarithmicAxis) {
  Plot plot{.id = "x", .title = "x", .unit = "", .may_be_log = true, .note = "", .series = {}};
  plot.series.push_back(
      {.name = "a", .points = {{.x = 1, .y = 1, .low = 1, .high = 1}, {.x = 2, .y = 1e5, .low = 1e5, .high = 1e5}}});
  EXPECT_TRUE(has(draw(plot), ",true],\"series\""));
  plot.series[0].points[1].y = 100;
  EXPECT_TRUE(has(draw(plot), ",false],\"series\""));
}

}  // namespace
}  // namespace ddp::report
