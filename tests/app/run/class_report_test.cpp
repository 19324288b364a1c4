#include "app/run/class_report.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace ddp {
namespace {

// Ten samples of each class; of class k < 10, k are taken for no class.
ClassCounts counts_of(int64_t classes, int64_t used) {
  ClassCounts counts(classes);
  for (int64_t k = 0; k < used; ++k)
    for (int i = 0; i < 10; ++i) {
      const bool wrong = k < 10 && i < k;
      counts.add(static_cast<int32_t>(k), {wrong ? -1 : static_cast<int32_t>(k), 0});
    }
  return counts;
}

// The first word of each line.
std::vector<std::string> first_words(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) words.push_back(line.substr(0, line.find(' ')));
  return words;
}

TEST(ClassReport, TableHasUpTo20ClassesInTheirOrder) {
  std::vector<std::string> expected = {"class"};
  for (int k = 0; k < 20; ++k) expected.push_back(fmt::format("{}", k));
  const std::string table = class_table(counts_of(23, 20), {});
  EXPECT_EQ(first_words(table), expected);
  EXPECT_NE(table.find("\n9           10     1.0000  0.1000  0.1818"), std::string::npos) << table;
}

TEST(ClassReport, TableOfMoreClassesHasTheTenWithTheLowestF1) {
  const std::string table = class_table(counts_of(23, 21), {});
  EXPECT_TRUE(table.starts_with("the 10 of 21 classes with the lowest F1:\nclass ")) << table;
  EXPECT_EQ(first_words(table),
            (std::vector<std::string>{"the", "class", "9", "8", "7", "6", "5", "4", "3", "2", "1", "0"}));
}

TEST(ClassReport, LongNamesAreCut) {
  ModelInfo model;
  model.class_names = {std::string(41, 'n'), std::string(40, 'm')};
  const std::string table = class_table(counts_of(2, 2), model);
  EXPECT_NE(table.find("\n" + std::string(37, 'n') + "...  "), std::string::npos) << table;
  EXPECT_NE(table.find("\n" + std::string(40, 'm') + "  "), std::string::npos) << table;
}

}  // namespace
}  // namespace ddp
