#include "data/text/pre_tokens.h"

#include "core/error.h"
#include "data/unicode.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <new>
#include <string>

namespace ddp {
namespace {

// GPT-2's, with classes in place of \s and \S.
std::string pattern_of_gpt2() {
  // PCRE2's own \s has U+180E, which is no white space since Unicode 6.3.
  const std::string s = R"(\x09-\x0D\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
  return R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^)" + s + R"(\p{L}\p{N}]+|[)" + s + "]+(?![^" + s + "])|[" +
         s + "]+";
}

bool ends_with_space(std::string_view text) {
  static constexpr std::string_view kSpaces[] = {"\t",     "\n",     "\v",     "\f",     "\r",     " ",      "\u0085",
                                                 "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004",
                                                 "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a", "\u2028",
                                                 "\u2029", "\u202f", "\u205f", "\u3000"};
  return std::ranges::any_of(kSpaces, [&](std::string_view space) { return text.ends_with(space); });
}

PCRE2_SPTR subject(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

PreTokenPattern::PreTokenPattern() {
  int error = 0;
  size_t offset = 0;
  const std::string pattern = pattern_of_gpt2();
  code_.reset(pcre2_compile(subject(pattern), pattern.size(), PCRE2_UTF | PCRE2_ANCHORED, &error, &offset, nullptr),
              pcre2_code_free);
  require(code_ != nullptr, Exit::internal, "PCRE2 refuses the pattern of text at {}: error {}", offset, error);
  pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // where it cannot, the pattern is interpreted
}

PreTokens::PreTokens(const PreTokenPattern& pattern, std::string_view text)
    : pattern_(pattern), text_(text), match_(pcre2_match_data_create(1, nullptr), pcre2_match_data_free) {
  if (!match_) throw std::bad_alloc();
}

bool PreTokens::next(std::string_view& pre_token) {
  if (at_ == text_.size()) return false;
  const size_t begin = at_;
  if (at_ == valid_end_) {
    while (at_ < text_.size() && utf8_bytes(text_.substr(at_)) == 0) ++at_;
    valid_end_ = at_;
    while (const size_t bytes = utf8_bytes(text_.substr(valid_end_))) valid_end_ += bytes;
  }
  if (at_ == begin) {
    const int found = pcre2_match(pattern_.code(), subject(text_.substr(at_)), valid_end_ - at_, 0, PCRE2_NO_UTF_CHECK,
                                  match_.get(), nullptr);
    require(found > 0, Exit::internal, "PCRE2 finds no pre-token: error {}", found);
    at_ += pcre2_get_ovector_pointer(match_.get())[1];
  }
  pre_token = text_.substr(begin, at_ - begin);
  return true;
}

// White space behind a word always begins a pre-token.
size_t last_cut(std::string_view text) {
  for (size_t i = text.size(); i-- > 1;) {
    const bool space = text[i] == ' ' || (text[i] >= '\t' && text[i] <= '\r');
    if (space && !ends_with_space(text.substr(0, i))) return i;
  }
  return 0;
}

}  // namespace ddp
