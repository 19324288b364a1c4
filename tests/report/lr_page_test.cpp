#include "report/lr_page.h"

#include "tests/report/page_text.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ddp::report {
namespace {

// Four decades, in the middle of the plot's 58 to 470 at 1e-2.
LrRecord record_of_four_decades() {
  LrRecord record{.subject = "a<b>", .lines = {"a line & more"}, .steps = {}};
  record.steps = {{1e-4, 3, 3}, {1e-3, 9, 2.5}, {1e-2, 2, 2}, {1e-1, 1, 1}, {1, 2, 2.5}};
  record.suggested = record.tenth = 1e-2;
  record.steepest = 1e-1;
  return record;
}

TEST(ReportLrPage, DrawsTheLossOverTheLogarithmOfTheRate) {
  const std::string page = lr_page(record_of_four_decades(), kInfo);
  for (const char* part :
       {"<h1>Learning rates of a&lt;b&gt;</h1>", "<li>a line &amp; more</li>", "nonce=\"abc123\"",
        "<path class=\"change s2\" d=\"M264 12V212\"><title>a tenth of the rate with the least loss: 0.01, the "
        "suggestion</title></path>",
        "<path class=\"change s3\" d=\"M367 12V212\"><title>steepest descent: 0.1</title></path>", ">0.0001</text>",
        "1 losses of steps lie above the plot."})
    EXPECT_TRUE(has(page, part)) << part;
  EXPECT_LT(page.find(kMarkOfPages), 512u);
  const std::string open = "<script type=\"application/json\">";
  const size_t begin = page.find(open) + open.size();
  const auto data = nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  EXPECT_EQ(data.at("x"), nlohmann::json({1e-4, 1.0, 58.0, 470.0, true}));
  EXPECT_EQ(data.at("series").at(0).at("x").size(), 5u);
  EXPECT_EQ(data.at("series").at(1).at("y"), nlohmann::json({3, 2, 1, 2}));
}

TEST(ReportLrPage, HasNoMarksWithoutASuggestion) {
  LrRecord record = record_of_four_decades();
  record.suggested = record.tenth = record.steepest = 0;
  EXPECT_FALSE(has(lr_page(record, kInfo), "class=\"change"));
  record.steps.clear();
  EXPECT_FALSE(has(lr_page(record, kInfo), "<figure"));
}

}  // namespace
}  // namespace ddp::report
