#include "core/csv_rows.h"

#include "tests/expect_error.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddp {
namespace {

using namespace std::string_literals;
using Names = std::vector<std::string>;

std::vector<Names> rows(const std::string& text) {
  CsvRows csv("f.csv", text);
  std::vector<Names> result;
  for (Names fields; csv.next(fields);) result.push_back(fields);
  return result;
}

TEST(CsvRows, ReadsPlainAndQuotedFields) {
  const std::vector<Names> expected = {{"a", "b c", ""}, {"x,y", "say \"hi\"", "two\r\nlines"}, {"", "", ""}};
  const std::string text = "a,b c,\n\"x,y\",\"say \"\"hi\"\"\",\"two\r\nlines\"\n,\"\",\n";
  EXPECT_EQ(rows(text), expected);
  EXPECT_EQ(rows("\xEF\xBB\xBF" + text), expected);
  EXPECT_EQ(rows(text.substr(0, text.size() - 1)), expected);
  EXPECT_EQ(rows("a,b\r\n\r\nc,d\r\n"), (std::vector<Names>{{"a", "b"}, {"c", "d"}}));
  EXPECT_EQ(rows("a\n\n\nb,c"), (std::vector<Names>{{"a"}, {"b", "c"}}));
  EXPECT_EQ(rows("a,b\nc"), (std::vector<Names>{{"a", "b"}, {"c"}}));
  EXPECT_TRUE(rows("").empty());
  EXPECT_TRUE(rows("\n\r\n").empty());
}

TEST(CsvRows, CountsLines) {
  CsvRows csv("f.csv", "a\n\"b\nc\"\n\nd");
  Names fields;
  for (const int64_t line : {1, 2, 5}) {
    ASSERT_TRUE(csv.next(fields));
    EXPECT_EQ(csv.line(), line);
  }
  EXPECT_EQ(csv.at(), "f.csv, line 5");
}

TEST(CsvRows, RefusesBrokenText) {
  const auto expect_refused = [](const std::string& text, std::initializer_list<std::string> parts) {
    expect_error(Exit::data, parts, [&] { rows(text); });
  };
  expect_refused("a\n\"b\nc", {"f.csv, line 2", "not closed"});
  expect_refused("a\n\"b\nc\"d", {"f.csv, line 3", "followed by a comma"});
  expect_refused("a\nb\"c\"", {"f.csv, line 2", "a quote within a field"});
  expect_refused("a\nb\0c"s, {"f.csv, line 2", "a zero byte"});
  expect_refused("a\n\"b\0c\""s, {"f.csv, line 2", "a zero byte"});
  expect_refused("a\rb", {"f.csv, line 1", "a carriage return"});
  expect_refused("\xFF\xFEp\0a\0"s, {"f.csv", "UTF-16"});
}

}  // namespace
}  // namespace ddp
