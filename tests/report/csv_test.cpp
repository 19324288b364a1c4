#include "report/csv.h"

#include "tests/report/run_folder.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ddp::report {
namespace {

std::string table_of(const RunFolder& run, const std::string& name) {
  std::string text;
  EXPECT_TRUE(write_csv(run.folder.path(), name, [&](const std::string& part) {
    text += part;
    return true;
  }));
  return text;
}

TEST(ReportCsv, HasARowForEachEventAndRank) {
  const RunFolder run;
  run.folder.write("metrics.jsonl", step_line(1, "null") + RunFolder::speed_line(20) + eval_line(20, 0.75, 1.125));
  EXPECT_EQ(table_of(run, "a,b"),
            "\"a,b\",step,1,1,0,,,0.5,100,1,4,0,,,,\n"
            "\"a,b\",speed,20,2,0,,,,,1,5,0.5,1.5,320.5,,\n"
            "\"a,b\",speed,20,2,1,,,,,2,8,0.25,1.5,320.5,,\n"
            "\"a,b\",eval,20,2,0,1.125,0.75,,10,,,,,,0.5,\n");
}

TEST(ReportCsv, RowsHaveTheColumnsOfTheHeader) {
  const std::string header = csv_header(), table = table_of(RunFolder(), "x");
  const auto columns = std::ranges::count(header, ',');
  EXPECT_EQ(std::ranges::count(table, '\n'), 26);
  EXPECT_EQ(std::ranges::count(table, ','), 26 * columns);
}

TEST(ReportCsv, SkippedStepsHaveTheirReason) {
  const RunFolder run;
  run.folder.write("metrics.jsonl", R"({"event":"step","step":1,"epoch":1,"loss":null,"skipped":"NaN, \"here\""})"
                                    "\n");
  EXPECT_EQ(table_of(run, "x"), "x,step,1,1,0,,,,,0,0,0,,,,\"NaN, \"\"here\"\"\"\n");
}

TEST(ReportCsv, EndsWithItsReader) {
  const RunFolder run;
  std::string lines;
  for (int i = 1; i <= 5000; ++i) lines += step_line(i, "1");
  run.folder.write("metrics.jsonl", lines);
  int parts = 0;
  EXPECT_FALSE(write_csv(run.folder.path(), "x", [&](const std::string& part) {
    EXPECT_LT(part.size(), 70'000u);
    return ++parts < 2;
  }));
  EXPECT_EQ(parts, 2);
}

}  // namespace
}  // namespace ddp::report
