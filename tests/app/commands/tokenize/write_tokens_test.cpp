#include "app/commands/tokenize/write_tokens.h"

#include "app/commands/tokenize/text_files.h"
#include "data/text/vocabulary.h"
#include "data/token_file.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"
#include "tests/text.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace ddp {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator(file), {}};
}

// The tokens of a file; its header has their number.
template <class Token = uint16_t>
std::vector<int32_t> tokens_in(const fs::path& path, int32_t magic = 20240520, int32_t version = 1) {
  const std::string content = content_of(path);
  int32_t header[256];
  std::vector<Token> tokens((content.size() - sizeof header) / sizeof(Token));
  std::memcpy(header, content.data(), sizeof header);
  std::memcpy(tokens.data(), content.data() + sizeof header, tokens.size() * sizeof(Token));
  EXPECT_EQ(header[0], magic);
  EXPECT_EQ(header[1], version);
  EXPECT_EQ(header[2], std::ssize(tokens));
  for (int i = 3; i < 256; ++i) EXPECT_EQ(header[i], 0);
  EXPECT_EQ(TokenFile(path).tokens(), std::ssize(tokens));
  return {tokens.begin(), tokens.end()};
}

class WriteTokens : public ::testing::Test {
 protected:
  TokenizeOptions options(const std::string& output, double val_split = 0) const {
    return {{(folder / "texts").string()}, vocabulary, (folder / output).string(), val_split};
  }
  void expect_nothing_in(const std::string& output) const { EXPECT_TRUE(fs::is_empty(folder / output)) << output; }

  const TempFolder folder;
  std::string vocabulary = "bytes";
};

TEST_F(WriteTokens, PutsATokenBeforeEachDocument) {
  folder.write("texts/b.txt", "by");
  folder.write("texts/a/z.txt", "a b");
  folder.write("texts/a/none.md");
  folder.write("texts/c.txt", "");
  const std::string said = write_tokens(options("out"));
  const Vocabulary bytes = Vocabulary::bytes();
  const std::vector<int32_t> tokens = tokens_in(folder / "out/train.bin");
  EXPECT_EQ(bytes.decode(tokens), "<|endoftext|>a b<|endoftext|>by<|endoftext|>");
  EXPECT_EQ(tokens[0], bytes.end_of_text());
  EXPECT_HAS(said, "out/train.bin: 8 tokens of 5 bytes, 0.62 bytes per token\n");
  EXPECT_HAS(said, "out/vocabulary.txt: 257 tokens\n");
  EXPECT_EQ(content_of(folder / "out/vocabulary.txt"), bytes.text());
  EXPECT_FALSE(fs::exists(folder / "out/val.bin"));

  expect_error(Exit::output, {"out/vocabulary.txt", "File exists"}, [&] { write_tokens(options("out")); });
  fs::remove(folder / "out/vocabulary.txt");
  expect_error(Exit::output, {"out/train.bin", "File exists"}, [&] { write_tokens(options("out")); });
  EXPECT_FALSE(fs::exists(folder / "out/vocabulary.txt"));
}

// However much is read at once, the tokens are those of the whole text.
TEST_F(WriteTokens, DoesNotDependOnTheParts) {
  vocabulary = DDP_MERGES;
  std::string text;
  std::minstd_rand random(1);
  for (const char* words[] = {" the", " of ", "\n\n", "'ll", "caf\u00e9", "\u3002", "\u3000", "rank ", "\xff", "12"};
       text.size() < 5000;)
    text += words[random() % std::size(words)];
  folder.write("texts/a.txt", text);
  const Vocabulary words = Vocabulary::named(vocabulary);
  std::vector<int32_t> expected = words.encode(text);
  expected.insert(expected.begin(), words.end_of_text());
  for (const size_t part : {1, 7, 1000, 5000, 100'000}) {
    const std::string output = fmt::format("out{}", part);
    write_tokens(options(output, 0.3), part);
    std::vector<int32_t> all = tokens_in(folder / output / "train.bin");
    const size_t train = words.decode(all).size() - std::strlen("<|endoftext|>");
    EXPECT_LE(train, text.size() - text.size() * 3 / 10);
    EXPECT_GE(train, text.size() * 7 / 10 - 50);
    const std::vector<int32_t> val = tokens_in(folder / output / "val.bin");
    all.insert(all.end(), val.begin(), val.end());
    EXPECT_EQ(all, expected) << part;
  }
}

TEST_F(WriteTokens, SplitsWhereADocumentEnds) {
  for (const char* name : {"a", "b", "c", "d"}) folder.write(fmt::format("texts/{}.txt", name), "0123456789");
  write_tokens(options("out", 0.25));
  const Vocabulary bytes = Vocabulary::bytes();
  EXPECT_EQ(bytes.decode(tokens_in(folder / "out/val.bin")), "<|endoftext|>0123456789");
  write_tokens(options("half", 0.5));
  EXPECT_EQ(tokens_in(folder / "half/train.bin"), tokens_in(folder / "half/val.bin"));
  expect_error(Exit::data, {"--val-split 0.001 of 40 bytes"}, [&] { write_tokens(options("none", 0.001)); });
  expect_nothing_in("none");
}

// Without white space a text is cut between characters.
TEST_F(WriteTokens, CutsNoCharacter) {
  folder.write("texts/a.txt", "\u3042\u3044\u3046\u3048\u304a");  // 15 bytes
  write_tokens(options("out", 0.5));                              // 7 bytes and 8
  EXPECT_EQ(Vocabulary::bytes().decode(tokens_in(folder / "out/val.bin")), "\u3046\u3048\u304a");
}

TEST_F(WriteTokens, TakesWiderTokensForALargeVocabulary) {
  std::string merges;
  for (int i = 10; i < 100'000; ++i) {
    const std::string number = std::to_string(i);
    merges += number.substr(0, number.size() - 1) + " " + number.back() + "\n";
  }
  vocabulary = folder.write("merges.txt", merges).string();
  folder.write("texts/a.txt", "99999 100");
  write_tokens(options("out"));
  EXPECT_EQ(Vocabulary::read(vocabulary).decode(tokens_in<uint32_t>(folder / "out/train.bin", 20240801, 7)),
            "<|endoftext|>99999 100");
}

TEST_F(WriteTokens, RefusesWhatIsNoText) {
  const auto refused = [&](const std::string& text, std::initializer_list<std::string> parts) {
    expect_error(Exit::data, parts, [&] { write_tokens({{text}, "bytes", (folder / "out").string()}); });
    EXPECT_FALSE(fs::exists(folder / "out"));
  };
  refused(folder / "missing.txt", {"missing.txt", "cannot read"});
  folder.write("other/a.md");
  refused(folder / "other", {"other: has no files *.txt"});
  refused(folder.write("empty.txt", ""), {"the texts are empty"});
  refused("/dev/null", {"/dev/null: is a device"});
}

}  // namespace
}  // namespace ddp
