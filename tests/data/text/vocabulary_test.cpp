#include "data/text/vocabulary.h"

#include "tests/expect_error.h"
#include "tests/temp_folder.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

namespace ddp {
namespace {

using Tokens = std::vector<int32_t>;

const Vocabulary& small_vocabulary() {
  static const Vocabulary vocabulary = Vocabulary::read(DDP_EXPECTED_DATA "/merges.txt");
  return vocabulary;
}

std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2) bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

TEST(Vocabulary, GivesTheTokensOfTiktokenAndHuggingFace) {
  std::ifstream file(DDP_EXPECTED_DATA "/vocabulary.txt");
  int texts = 0;
  for (std::string line; std::getline(file, line); ++texts) {
    std::istringstream words(line);
    std::string digits, colon;
    words >> digits >> colon;
    const Tokens expected{std::istream_iterator<int32_t>(words), {}};
    const std::string text = from_hex(digits);
    EXPECT_EQ(small_vocabulary().encode(text), expected) << text;
    EXPECT_EQ(small_vocabulary().decode(expected), text);
  }
  EXPECT_GT(texts, 30);
}

TEST(Vocabulary, HasTheOrderOfGpt2) {
  const Vocabulary bytes = Vocabulary::bytes();
  EXPECT_EQ(bytes.size(), 257);
  EXPECT_EQ(bytes.encode("!~\xa1\xac\xae\xff"), (Tokens{0, 93, 94, 105, 106, 187}));
  EXPECT_EQ(bytes.encode({"\0 \n\x7f\xa0\xad", 6}), (Tokens{188, 220, 198, 221, 254, 255}));
  EXPECT_EQ(bytes.end_of_text(), 256);
  EXPECT_EQ(bytes.decode(Tokens{40, 256}), "I<|endoftext|>");
  EXPECT_EQ(small_vocabulary().size(), 957);
}

// What is not UTF-8 is a pre-token; the text before it ends there: "a  " is one pre-token less than in "a  b".
TEST(Vocabulary, KeepsBytesThatAreNotUtf8) {
  const Vocabulary& vocabulary = small_vocabulary();
  std::minstd_rand random(1);
  for (int i = 0; i < 2000; ++i) {
    constexpr std::string_view kParts[] = {"\xff", "\xc3",         "\xa9",     "\xe2\x80", " ",
                                           "the",  "\xed\xa0\x80", "\xf4\x90", "\n",       "\xc0\xaf"};
    std::string text;
    for (int n = 0; n < 8; ++n) text += kParts[random() % std::size(kParts)];
    EXPECT_EQ(vocabulary.decode(vocabulary.encode(text)), text);
  }
  const Vocabulary merges = Vocabulary::parse("merges", "\u00c4 \u0142\n\u00d0 \u00d0\n\u0120 \u0120\n");
  EXPECT_EQ(merges.encode("\xd0\xd0"), (Tokens{257}));
  EXPECT_EQ(merges.encode("\xd0 \xd0"), (Tokens{merges.encode("\xd0")[0], 220, merges.encode("\xd0")[0]}));
  EXPECT_EQ(merges.encode("a  \xd0"), (Tokens{64, 258, merges.encode("\xd0")[0]}));
  EXPECT_EQ(merges.encode("a  b"), (Tokens{64, 220, 220, 65}));
}

// A merge of the last byte of a character with "!" is made where both are in one pre-token.
TEST(Vocabulary, HasTheWhiteSpaceOfUnicode) {
  EXPECT_EQ(Vocabulary::parse("83", "\u0125 !").encode("\u2003!").size(), 4u);
  EXPECT_EQ(Vocabulary::parse("8e", "\u0130 !").encode("\u180e!").size(), 3u);  // no white space since Unicode 6.3
}

TEST(Vocabulary, CutsALongTextBetweenPreTokens) {
  std::ifstream file(DDP_EXPECTED_DATA "/make_vocabulary.py");
  const std::string text{std::istreambuf_iterator(file), {}};
  std::string all = text + " caf\u00e9\u00a0 x\u3002\nthe\u3000\u2003 \n the\xe2\x80 the   ";
  const Tokens whole = small_vocabulary().encode(all);
  int cuts = 0;
  for (size_t end = 1; end <= all.size(); end += end + 60 < all.size() ? 37 : 1) {
    const size_t cut = last_cut(std::string_view(all).substr(0, end));
    if (cut == 0) continue;
    ++cuts;
    Tokens parts = small_vocabulary().encode(std::string_view(all).substr(0, cut));
    const Tokens rest = small_vocabulary().encode(std::string_view(all).substr(cut));
    parts.insert(parts.end(), rest.begin(), rest.end());
    EXPECT_EQ(parts, whole) << "cut at " << cut;
  }
  EXPECT_GT(cuts, 50);
  EXPECT_EQ(last_cut("one two"), 3u);
  EXPECT_EQ(last_cut("one  two  "), 8u);
  EXPECT_EQ(last_cut("\u3002\n"), 3u);
  for (const char* none : {"", " ", "one", " one", "\u3000 one", "\u00a0\n"}) EXPECT_EQ(last_cut(none), 0u) << none;
}

// In quadratic time the test would take many minutes.
TEST(Vocabulary, EncodesAWordOfAMegabyte) {
  const std::string word(1'000'000, 'e'), mixed = [] {
    std::string letters;
    std::minstd_rand random(1);
    while (letters.size() < 200'000) letters += static_cast<char>('a' + random() % 26);
    return letters;
  }();
  for (const std::string& text : {word, mixed}) {
    const Tokens tokens = small_vocabulary().encode(text);
    EXPECT_TRUE(small_vocabulary().decode(tokens) == text);
  }
}

TEST(Vocabulary, IsWhatItsTextHolds) {
  std::ifstream file(DDP_EXPECTED_DATA "/merges.txt");
  const std::string text{std::istreambuf_iterator(file), {}};
  EXPECT_EQ(small_vocabulary().text(), text);
  EXPECT_EQ(Vocabulary::parse("again", text.substr(text.find('\n') + 1)).text(), text);
  EXPECT_EQ(Vocabulary::parse("crlf", "#version: 9\r\na b\r\nab c").text(), "#version: 0.2\na b\nab c\n");
  EXPECT_EQ(Vocabulary::bytes().text(), "#version: 0.2\n");
  const TempFolder folder;
  EXPECT_EQ(Vocabulary::named(folder.write("merges", "# a\n")).encode("#a# a"), (Tokens{2, 64, 2, 220, 64}));
  EXPECT_EQ(Vocabulary::named("bytes").size(), 257);
}

TEST(Vocabulary, RefusesWhatIsNoFileOfMerges) {
  const auto refused = [](std::string_view text, std::initializer_list<std::string> parts) {
    expect_error(Exit::data, parts, [&] { Vocabulary::parse("m", text); });
  };
  refused("{\n", {"m, line 1", "'{'", "vocab.bpe"});
  for (const char* line : {"a", "a b c", "a  b", "\n", " a b"})
    refused("#version: 0.2\na b\n" + std::string(line) + "\n", {"m, line 3", "two tokens"});
  for (const char* line : {"a bc", "a ", " a", "\u4f60 a", "\xff b", "a \t"})
    refused("a b\n" + std::string(line) + "\n", {"m, line 2", "no line before it makes"});
  refused("a b\na b\n", {"m, line 2", "'ab' too"});
  refused("a b\nb c\na bc\nab c\n", {"m, line 4", "'abc' too"});
  std::string many;
  for (int i = 0, made = 0; made <= 300'000; ++i) {
    std::string number = std::to_string(i), left = number.substr(0, number.size() - 1);
    if (number.size() == 1) continue;
    many += left + " " + number.back() + "\n", ++made;
  }
  refused(many, {"m, line 300001", "300000 merges"});
  expect_error(Exit::data, {"/nowhere", "cannot read"}, [] { Vocabulary::named("/nowhere"); });
  expect_error(Exit::data, {"the token 257", "257"}, [] { Vocabulary::bytes().decode(Tokens{257}); });
  expect_error(Exit::data, {"the token -1"}, [] { Vocabulary::bytes().decode(Tokens{-1}); });
}

}  // namespace
}  // namespace ddp
