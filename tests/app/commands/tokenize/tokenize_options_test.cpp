#include "app/commands/tokenize/tokenize_options.h"

#include "tests/app/options/option_lines.h"
#include "tests/expect_error.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

TokenizeOptions tokenized(const std::string& line) {
  std::optional<std::string> answer;
  return parse_tokenize_options(words(line), answer);
}

TEST(TokenizeOptions, AreReadAndChecked) {
  const TokenizeOptions options = tokenized("a.txt b --vocabulary v.bpe --output-dir out --val-split 0.1");
  EXPECT_EQ(options.texts, (std::vector<std::string>{"a.txt", "b"}));
  EXPECT_EQ(options.vocabulary, "v.bpe");
  EXPECT_EQ(options.output_folder, "out");
  EXPECT_EQ(options.val_split, 0.1);
  for (const char* wrong : {"1", "-0.1", "nan", "0.91"})
    expect_error(Exit::usage, {"--val-split"},
                 [&] { tokenized(fmt::format("a --vocabulary bytes --output-dir out --val-split {}", wrong)); });
  expect_error(Exit::usage, {"TEXT"}, [] { tokenized("--vocabulary bytes --output-dir out"); });
  expect_error(Exit::usage, {"--vocabulary"}, [] { tokenized("a --output-dir out"); });
  expect_error(Exit::usage, {"--output-dir"}, [] { tokenized("a --vocabulary bytes"); });
}

}  // namespace
}  // namespace ddp
