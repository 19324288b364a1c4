#include "core/printable.h"

#include "core/printable_text.h"

#include <gtest/gtest.h>

#include <string>

namespace ddp {
namespace {

using namespace std::string_literals;

TEST(Printable, KeepsText) {
  for (const char* text : {"", "a b/c.jpg", "\\x41", "caf\u00e9 \u4e2d \U0001F600", "\u00a0\ud7ff\ue000\U0010ffff"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, EscapesControlCharacters) {
  EXPECT_EQ(printable("a\nb\tc\0d\x1b[31m\x7f"s), "a\\x0Ab\\x09c\\x00d\\x1B[31m\\x7F");
  EXPECT_EQ(printable("\u0080\u009f"), "\\xC2\\x80\\xC2\\x9F");
}

TEST(Printable, KeepsNewlinesAndTabsOfATextThatHasThem) {
  EXPECT_EQ(printable_text("a\n\tä\r\x1b[2J\xe9"), "a\n\tä\\x0D\\x1B[2J\\xE9");
}

TEST(WholeCharacters, LeaveOutALastCharacterThatMoreBytesMayComplete) {
  for (const std::string character : {"a", "ä", "€", "😀"})
    for (size_t bytes = 0; bytes <= character.size(); ++bytes)
      EXPECT_EQ(bytes_of_whole_characters("xyz" + character.substr(0, bytes)),
                bytes == character.size() ? 3 + bytes : 3)
          << character << bytes;
  EXPECT_EQ(bytes_of_whole_characters("\x80\x80\x80\x80"), 4u);  // no character begins there
  EXPECT_EQ(bytes_of_whole_characters("\xff"), 0u);
  EXPECT_EQ(bytes_of_whole_characters("\xff "), 2u);
}

TEST(Printable, HidesTheValuesOfSecrets) {
  EXPECT_EQ(printable_variable("NCCL_ALGO", "Ring\n"), "NCCL_ALGO=Ring\\x0A");
  for (const std::string name : {"NCCL_TLS_KEY", "NCCL_TOKEN_FILE", "NCCL_SECRETS"})
    EXPECT_EQ(printable_variable(name, "abc"), name + "=...");
}

TEST(Printable, EscapesWhatChangesTheDirectionOfText) {
  EXPECT_EQ(printable("\u2027\u2028\u202e\u202f\u2065\u2066\u2069\u206a"),
            "\u2027\\xE2\\x80\\xA8\\xE2\\x80\\xAE\u202f\u2065\\xE2\\x81\\xA6\\xE2\\x81\\xA9\u206a");
}

TEST(Shortened, EndsAfterAHundredBytes) {
  EXPECT_EQ(shortened("a\n"), "a\\x0A");
  EXPECT_EQ(shortened(std::string(100, 'a')), std::string(100, 'a'));
  EXPECT_EQ(shortened(std::string(101, 'a')), std::string(100, 'a') + "...");
  EXPECT_EQ(shortened(std::string(99, 'a') + "\u00e9"), std::string(99, 'a') + "...");
  EXPECT_EQ(shortened(std::string(1'000'000, '\n')).size(), 103u);
}

// Lone bytes, cut characters, overlong forms, surrogates, above U+10FFFF.
TEST(Printable, EscapesBrokenUtf8) {
  EXPECT_EQ(printable("\xff|\x80|\xc3|\xe4\xb8|\xf0\x9f\x98"), "\\xFF|\\x80|\\xC3|\\xE4\\xB8|\\xF0\\x9F\\x98");
  EXPECT_EQ(printable("\xc0\xaf|\xc1\xbf|\xe0\x9f\xbf"), "\\xC0\\xAF|\\xC1\\xBF|\\xE0\\x9F\\xBF");
  EXPECT_EQ(printable("\xed\xa0\x80|\xf0\x8f\xbf\xbf"), "\\xED\\xA0\\x80|\\xF0\\x8F\\xBF\\xBF");
  EXPECT_EQ(printable("\xf4\x90\x80\x80|\xf5\x80\x80\x80"), "\\xF4\\x90\\x80\\x80|\\xF5\\x80\\x80\\x80");
  EXPECT_EQ(printable("\xc3z\xe4\xb8z"), "\\xC3z\\xE4\\xB8z");
}

}  // namespace
}  // namespace ddp
