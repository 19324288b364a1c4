#include "data/token_file.h"

#include "core/error.h"
#include "core/printable.h"

#include <fcntl.h>

#include <array>
#include <cstring>

namespace ddp {
namespace {

int32_t int32_at(std::span<const uint8_t> bytes, size_t place) {
  int32_t number = 0;
  if ((place + 1) * sizeof number <= bytes.size())
    std::memcpy(&number, bytes.data() + place * sizeof number, sizeof number);
  return number;
}

const char* name_of(TokenType type) { return type == TokenType::uint16 ? "uint16" : "uint32"; }

// `to` has the numbers in its second part. Each token is read before its place is written. Returns the first token that
// is not below the vocabulary, or the number of tokens.
template <class Number>
size_t widen(std::span<uint8_t> to, size_t tokens, int64_t vocabulary) {
  const uint8_t* const from = to.data() + to.size() - tokens * sizeof(Number);
  for (size_t i = 0; i < tokens; ++i) {
    Number number;
    std::memcpy(&number, from + i * sizeof number, sizeof number);
    if (int64_t{number} >= vocabulary) return i;
    const auto token = static_cast<int32_t>(number);
    std::memcpy(to.data() + i * sizeof token, &token, sizeof token);
  }
  return tokens;
}

template <class Number>
int64_t number_at(std::span<const uint8_t> to, size_t tokens, size_t place) {
  Number number;
  std::memcpy(&number, to.data() + to.size() - (tokens - place) * sizeof number, sizeof number);
  return number;
}

}  // namespace

std::optional<TokenHeader> parse_token_header(const std::string& name, std::span<const uint8_t> first_bytes) {
  const int32_t magic = int32_at(first_bytes, 0), version = int32_at(first_bytes, 1);
  if (magic != kMagicOf16 && magic != kMagicOf32) return std::nullopt;
  const bool is_16 = magic == kMagicOf16;
  require(std::ssize(first_bytes) >= kTokenHeaderBytes, Exit::data,
          "{}: has {} bytes of a header of {}: the file is cut", name, first_bytes.size(), kTokenHeaderBytes);
  require(version == (is_16 ? kVersionOf16 : kVersionOf32), Exit::data,
          "{}: its header has version {}; version {} is read after the magic number {}", name, version,
          is_16 ? kVersionOf16 : kVersionOf32, magic);
  const int32_t tokens = int32_at(first_bytes, kPlaceOfTokens);
  require(tokens >= 0, Exit::data, "{}: its header says {} tokens", name, tokens);
  return TokenHeader{is_16 ? TokenType::uint16 : TokenType::uint32, tokens};
}

TokenFile::TokenFile(const std::filesystem::path& path, std::optional<TokenType> type)
    : name_(printable(path.native())), file_(open_for_reading(path)) {
  bytes_ = size_of(file_, name_);
  std::array<uint8_t, kTokenHeaderBytes> first{};
  const ReadResult result = read_at(file_.get(), 0, first);
  require(result.error == 0, Exit::data, "{}: cannot read it: {}", name_, errno_text(result.error));
  const auto header = parse_token_header(name_, std::span(first).first(result.bytes));
  require(!header || !type || *type == header->type, Exit::usage, "--token-type {}: the header of {} says {}",
          name_of(type.value_or(TokenType::uint16)), name_, name_of(header ? header->type : TokenType::uint16));
  const TokenType found = header ? header->type : type.value_or(TokenType::uint16);
  token_bytes_ = found == TokenType::uint16 ? 2 : 4;
  if (header) {
    header_bytes_ = kTokenHeaderBytes;
    tokens_ = header->tokens;
    require(bytes_ == offset_of(tokens_), Exit::data,
            "{}: its header says {} tokens of {} bytes, so the file must have {} bytes; it has {}", name_, tokens_,
            token_bytes_, offset_of(tokens_), bytes_);
  } else {
    require(bytes_ % token_bytes_ == 0, Exit::data, "{}: has {} bytes, which is no multiple of the {} of a {} token",
            name_, bytes_, token_bytes_, name_of(found));
    tokens_ = bytes_ / token_bytes_;
  }
}

void TokenFile::read(int64_t first, int64_t vocabulary, std::span<uint8_t> to) const {
  const size_t tokens = to.size() / sizeof(int32_t);
  DDP_EXPECT(first >= 0 && first + static_cast<int64_t>(tokens) <= tokens_);
  const std::span<uint8_t> raw = to.last(tokens * static_cast<size_t>(token_bytes_));
  const ReadResult result = read_at(file_.get(), static_cast<size_t>(offset_of(first)), raw);
  require(result.error == 0, Exit::data, "{}: cannot read it: {}", name_, errno_text(result.error));
  if (result.bytes < raw.size()) fail_shorter();
  const bool is_16 = token_bytes_ == 2;
  const size_t good = is_16 ? widen<uint16_t>(to, tokens, vocabulary) : widen<uint32_t>(to, tokens, vocabulary);
  if (good == tokens) return;
  fail(
      Exit::data,
      "{}: token {} at position {} is not in the vocabulary of {} tokens; give --vocab-size of the tokenizer that made "
      "the file, or --token-type of its numbers",
      name_, is_16 ? number_at<uint16_t>(to, tokens, good) : number_at<uint32_t>(to, tokens, good),
      first + static_cast<int64_t>(good), vocabulary);
}

void TokenFile::fail_shorter() const {
  fail(Exit::data, "{}: has become shorter: it had {} bytes when this run began, and has {} now", name_, bytes_,
       size_of(file_, name_));
}

void TokenFile::announce(int64_t first, int64_t count) const {
  ::posix_fadvise(file_.get(), offset_of(first), count * token_bytes_, POSIX_FADV_WILLNEED);
}

}  // namespace ddp
