// A file of tokens, as numbers in little endian:
//
//   llm.c     a header of 256 int32, then the tokens. The header has the magic number 20240520 and version 1 before
//             uint16, or 20240801 and version 7 before uint32; then the number of tokens.
//   raw       tokens only, as nanoGPT writes them
//
// A window is read when it is needed; the file may be far larger than the memory. Thread-safe.
#pragma once

#include "core/read_file.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace ddp {

enum class TokenType : uint8_t { uint16, uint32 };

inline constexpr int64_t kTokenHeaderBytes = 1024;
inline constexpr int32_t kMagicOf16 = 20240520, kVersionOf16 = 1, kMagicOf32 = 20240801, kVersionOf32 = 7;
inline constexpr size_t kPlaceOfTokens = 2;  // the int32 of the header that is the number of tokens

// What a header says. `first_bytes`: up to kTokenHeaderBytes of the file. Nothing: the file has no header. Throws
// Error(Exit::data) with `name`, the file, for a header that is cut or has another version.
struct TokenHeader {
  TokenType type = TokenType::uint16;
  int64_t tokens = 0;
};
std::optional<TokenHeader> parse_token_header(const std::string& name, std::span<const uint8_t> first_bytes);

class TokenFile {
 public:
  // `type`: of the tokens; none: that of the header, else uint16. Throws Error(Exit::data) with the path if the file
  // cannot be read, is not a regular file, or has another size than its header says, or a part of a token. Throws
  // Error(Exit::usage) if the header has another type.
  explicit TokenFile(const std::filesystem::path& path, std::optional<TokenType> type = {});

  int64_t tokens() const { return tokens_; }
  const std::string& name() const { return name_; }  // path, for messages: printable

  // Writes the tokens from `first` on to `to`, as int32; to.size() is a multiple of 4. Throws Error(Exit::data) with
  // the path if the file has become shorter or cannot be read, and for a token that is not below `vocabulary`.
  void read(int64_t first, int64_t vocabulary, std::span<uint8_t> to) const;

  // `count` tokens from `first` on are read soon.
  void announce(int64_t first, int64_t count) const;

 private:
  [[noreturn]] void fail_shorter() const;
  int64_t offset_of(int64_t token) const { return header_bytes_ + token * token_bytes_; }

  std::string name_;
  OpenFile file_;
  int64_t bytes_ = 0, header_bytes_ = 0, token_bytes_ = 2, tokens_ = 0;
};

}  // namespace ddp
