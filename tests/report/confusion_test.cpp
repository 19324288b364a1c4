#include "report/confusion.h"

#include "core/error.h"
#include "report/confusion_grid.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace ddp::report {
namespace {

TEST(Confusion, NamesMayHaveCommasQuotesAndNewlines) {
  const Confusion confusion =
      parse_confusion("class,\"a, \"\"b\"\"\",\"c\nd\"\r\n\"a, \"\"b\"\"\",1,2\r\n\"c\nd\",3,4\r\n", "m");
  EXPECT_EQ(confusion.classes, (std::vector<std::string>{"a, \"b\"", "c\nd"}));
  EXPECT_EQ(confusion.count(0, 1), 2);
  EXPECT_EQ(confusion.samples(1), 7);
  const auto pairs = worst_pairs(confusion, 1);
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(pairs[0].label, 1u);
  EXPECT_EQ(pairs[0].count, 3);
}

TEST(Confusion, SaysWhatIsWrong) {
  const auto error = [](const std::string& text) -> std::string {
    try {
      parse_confusion(text, "m");
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Exit::data);
      return e.what();
    }
    return "none";
  };
  EXPECT_EQ(error(""), "m has 0 classes in line 1; it may have 1 to 2048");
  EXPECT_EQ(error("class,a,b\na,1,2\n"), "m ends before row 2 of 2");
  EXPECT_EQ(error("class,\"a\nb\",c\na,1,2\nb,1\n"), "m, line 4: 2 fields, and line 1 has 3");
  EXPECT_EQ(error("class,a\na,-1\n"), "m, line 2: field 2 is no count");
  EXPECT_EQ(error("class,a\na,1x\n"), "m, line 2: field 2 is no count");
  EXPECT_EQ(error("class,a\na,99999999999999\n"), "m, line 2: field 2 is no count");
  EXPECT_EQ(error("class,a\na,1\nb,1\n"), "m has more than 1 rows");
  EXPECT_EQ(error("class,a\na,1\n"), "none");
  EXPECT_EQ(error("class" + std::string(2049, ',')), "m has 2049 classes in line 1; it may have 1 to 2048");
}

Confusion diagonal(size_t classes) {
  Confusion confusion;
  for (size_t k = 0; k < classes; ++k) confusion.classes.push_back(fmt::format("<{}>", k));
  confusion.counts.assign(classes * classes, 0);
  for (size_t k = 0; k < classes; ++k) confusion.counts[k * classes + k] = 9;
  confusion.counts[classes] = 1;  // class 1 as class 0
  return confusion;
}

TEST(ConfusionGrid, HasACellForEachCount) {
  const std::string text = draw_confusion("run", diagonal(40));
  size_t cells = 0;
  for (size_t at = 0; (at = text.find("data-tip=", at)) != std::string::npos; ++at) ++cells;
  EXPECT_EQ(cells, 41u);
  EXPECT_NE(text.find("\"&lt;1&gt;: 1 predicted as &lt;0&gt; (10 %)\""), std::string::npos);
  EXPECT_EQ(text.find("<1>"), std::string::npos);
}

TEST(ConfusionGrid, IsATableOfErrorsForManyClasses) {
  const std::string text = draw_confusion("run", diagonal(41));
  EXPECT_EQ(text.find("<svg"), std::string::npos);
  EXPECT_NE(text.find("<td>&lt;1&gt;</td><td>&lt;0&gt;</td><td class=\"n\">1</td>"), std::string::npos) << text;
}

}  // namespace
}  // namespace ddp::report
