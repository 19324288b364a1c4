#include "app/inputs/label_weights.h"

#include "core/error.h"
#include "data/memory_dataset.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddp {
namespace {

const std::vector<std::string> kAnimals{"cat", "dog, small", "2"};

std::vector<float> parsed(const std::string& text) { return parse_label_weights("w.csv", text, kAnimals, 3); }

std::string refusal(const std::string& text, std::span<const std::string> names = kAnimals) {
  try {
    parse_label_weights("w.csv", text, names, 3);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::data);
    return e.what();
  }
  return "";
}

MemoryDataset labelled(const std::vector<uint8_t>& labels) {
  return {{1, 1, 1}, 3, std::vector<uint8_t>(labels.size()), labels};
}

TEST(LabelWeights, BalancedClassesHaveEqualSums) {
  const std::vector<float> weights = balanced_weights(labelled({0, 0, 0, 1, 2, 2}), kAnimals);
  EXPECT_EQ(weights, (std::vector<float>{2.0f / 3, 2, 1}));
}

TEST(LabelWeights, BalancedNamesAClassWithoutSamples) {
  const auto message = [](std::span<const std::string> names) -> std::string {
    try {
      balanced_weights(labelled({0, 2}), names);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Exit::data);
      return e.what();
    }
    return "";
  };
  EXPECT_NE(message(kAnimals).find("class dog, small has no training sample"), std::string::npos);
  EXPECT_NE(message({}).find("class 1 has no training sample"), std::string::npos);
}

TEST(LabelWeights, ReadsNamesAndNumbersInAnyOrder) {
  EXPECT_EQ(parsed("class,weight\n\"dog, small\",0.5\r\ncat,2\n2,1e3\n"), (std::vector<float>{2, 0.5, 1000}));
  EXPECT_EQ(parsed("class,weight\n0,1\n1,2\n2,3"), (std::vector<float>{1, 2, 3}));
}

TEST(LabelWeights, RefusesOtherContent) {
  const std::string head = "class,weight\n";
  EXPECT_EQ(refusal(""), "w.csv: its first line must be class,weight");
  EXPECT_EQ(refusal("cat,1\n"), "w.csv: its first line must be class,weight");
  EXPECT_EQ(refusal(head + "cat,1\n"), "w.csv: class dog, small has no weight; give each class a line");
  EXPECT_EQ(refusal(head + "cow,1\n"),
            "w.csv, line 2: the data have no class \"cow\"; their classes are cat, dog, small, 2");
  EXPECT_EQ(refusal(head + "3,1\n", {}), "w.csv, line 2: the data have no class \"3\"; their classes are 0 to 2");
  EXPECT_EQ(refusal(head + "cat,1\n0,1\n"), "w.csv, line 3: class 0 stands twice; remove one line");
  EXPECT_EQ(refusal(head + "cat,1,2\n"),
            "w.csv, line 2: has 3 fields, not a class and its weight; put a name with a comma in quotes");
  for (const char* weight : {"0", "-1", "nan", "inf", "1e-7", "1e7", "1 ", "", "0x1", "1e999"})
    EXPECT_EQ(refusal(head + "cat," + weight + "\n"),
              "w.csv, line 2: \"" + std::string(weight) + "\" is no weight: give a number from 1e-06 to 1e+06");
  for (const char* number : {"-1", "3", "99999999999999999999", "1.0", "+1", ""})
    EXPECT_NE(refusal(head + number + ",1\n").find("the data have no class"), std::string::npos) << number;
}

}  // namespace
}  // namespace ddp
