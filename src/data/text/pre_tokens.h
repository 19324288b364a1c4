// The pre-tokens of a text, which GPT-2 encodes one by one: contractions, words, numbers, other signs, and white space.
#pragma once

#include <memory>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;

namespace ddp {

// GPT-2's pattern (OpenAI's gpt-2, src/encoder.py), compiled. Letters and numbers are those of PCRE2's Unicode tables,
// white space is Unicode's White_Space. May be used by several threads.
class PreTokenPattern {
 public:
  PreTokenPattern();
  const pcre2_real_code_8* code() const { return code_.get(); }

 private:
  std::shared_ptr<pcre2_real_code_8> code_;
};

// Gives the pre-tokens in order; together they are the text. Bytes that are not UTF-8 are pre-tokens of their own, as
// long as they follow each other; what is before them is split as if the text ended there. The time is linear.
class PreTokens {
 public:
  PreTokens(const PreTokenPattern& pattern, std::string_view text);  // both outlive this object
  bool next(std::string_view& pre_token);                            // false: the end

 private:
  const PreTokenPattern& pattern_;
  const std::string_view text_;
  const std::shared_ptr<pcre2_real_match_data_8> match_;
  size_t at_ = 0, valid_end_ = 0;  // text_ from at_ to valid_end_ is UTF-8
};

// Where a long text may be cut into parts with the same pre-tokens as the whole, whatever follows: behind the last of
// its words that white space follows. 0: nowhere.
size_t last_cut(std::string_view text);

}  // namespace ddp
