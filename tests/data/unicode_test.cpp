#include "data/unicode.h"

#include "data/known_names.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddp {
namespace {

using Names = std::vector<std::string>;

const std::string kComposed = "caf\u00e9", kDecomposed = "cafe\u0301";  // one character; a letter and an accent

TEST(Unicode, BytesOfACharacter) {
  for (const char* whole : {"a", "\u00e9", "\u4f60", "\U0010ffff", "\x7f"})
    EXPECT_EQ(utf8_bytes(std::string(whole) + "x"), std::string(whole).size());
  for (const char* wrong :
       {"", "\x80", "\xc3", "\xc3x", "\xe2\x80", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"})
    EXPECT_EQ(utf8_bytes(wrong), 0u) << wrong;
}

TEST(Unicode, FormsOfAName) {
  EXPECT_EQ(composed(kDecomposed), kComposed);
  EXPECT_EQ(composed(kComposed), kComposed);
  EXPECT_EQ(decomposed(kComposed), kDecomposed);
  EXPECT_EQ(composed("Cat"), "Cat");
  EXPECT_EQ(composed("\uac00"), composed("\u1100\u1161"));  // Hangul
  EXPECT_EQ(case_folded("\u00c9T\u00c9 Stra\u00dfe"), case_folded("e\u0301te\u0301 STRASSE"));
  EXPECT_NE(case_folded("cat"), case_folded("cut"));
  for (const std::string name : {"\xff", "e\u0301\xff", ""}) EXPECT_EQ(composed(name), name);
}

// Sorting the accents of one letter takes quadratic time.
TEST(Unicode, LongTextsStayAsTheyAre) {
  std::string text = "a";
  while (text.size() < 2'000'000) text += "\u0301\u0316";
  EXPECT_EQ(composed(text), text);
  EXPECT_EQ(composed(kDecomposed + std::string(300, 'x')), kDecomposed + std::string(300, 'x'));
}

TEST(Unicode, ShowsTheDifferences) {
  EXPECT_EQ(shown_with_bytes(kDecomposed + "s", kComposed + "s"),
            kDecomposed + "s (65 CC 81) and " + kComposed + "s (C3 A9)");
  EXPECT_EQ(case_differences(Names{"Cat", "bird", "CAF\u00c9"}, Names{"cat", kComposed}),
            "; these names differ only by case: Cat and cat, CAF\u00c9 and " + kComposed);
  EXPECT_EQ(case_differences(Names{"bird"}, Names{"cat"}), "");
}

TEST(KnownNames, OfSplits) {
  for (const char* name : {"train", "Training", "TRAIN"}) EXPECT_EQ(split_of(name), Split::train) << name;
  for (const char* name : {"val", "Valid", "VALIDATION", "test", "Testing"}) EXPECT_EQ(split_of(name), Split::val);
  for (const char* name : {"", "dev", "trainer", "train_set", "tests"}) EXPECT_EQ(split_of(name), Split::none) << name;
  for (const char* name : {"seg_train", "Training-set", "train2017", "train"})
    EXPECT_EQ(split_word_of(name), Split::train) << name;
  EXPECT_EQ(split_word_of("set 1 (test)"), Split::val);
  for (const char* name : {"", "2017", "strain", "value", "cat"}) EXPECT_EQ(split_word_of(name), Split::none) << name;
}

TEST(KnownNames, OfSystems) {
  for (const char* name : {"__MACOSX", "@eaDir", "#recycle", "lost+found", ".AppleDouble", "$Recycle.Bin"})
    EXPECT_TRUE(is_system_folder(name)) << name;
  for (const char* name : {"cat", "", "recycle", "MACOSX"}) EXPECT_FALSE(is_system_folder(name)) << name;
  for (const char* name : {".DS_Store", "._1.jpg", "Thumbs.db", "desktop.ini"}) EXPECT_TRUE(is_hidden(name)) << name;
  for (const char* name : {"1.jpg", "thumbs", ""}) EXPECT_FALSE(is_hidden(name)) << name;
}

}  // namespace
}  // namespace ddp
