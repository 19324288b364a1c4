// A vocabulary of tokens: byte-level byte pair encoding, as in GPT-2. The tokens are the 256 bytes in the order of
// GPT-2's alphabet (data/text/byte_alphabet.h), then one for each merge of two earlier tokens, then <|endoftext|>. So
// GPT-2's file vocab.bpe, which is merges.txt of Hugging Face, gives GPT-2's ids.
//
// A text is any bytes. Those that are UTF-8 are encoded as by GPT-2 (R. Sennrich et al. 2016, with the pattern of
// data/text/pre_tokens.h): in each pre-token, the earliest possible merge is made first, of equal ones the leftmost.
// Bytes that are not UTF-8 are merged among themselves.
#pragma once

#include "data/text/pre_tokens.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ddp {

class Vocabulary {
 public:
  static constexpr size_t kLongestPreToken = size_t{16} << 20;  // bytes; a longer one is cut

  static Vocabulary bytes();  // without merges: 257 tokens

  // A file of merges. It may begin with a line "#version: ...". Each other line is a merge: two earlier tokens with a
  // space between them. Throws Error(Exit::data) with file and line.
  static Vocabulary read(const std::filesystem::path& path);
  static Vocabulary parse(const std::string& name, std::string_view file);  // name: of the file, for messages

  static Vocabulary named(const std::string& word);  // "bytes", or the path of a file

  int64_t size() const { return end_of_text() + 1; }
  int32_t end_of_text() const { return static_cast<int32_t>(tokens_.size()) - 1; }

  // The text "<|endoftext|>" is encoded like any other: only a caller gives end_of_text(). A pre-token of more than 16
  // MiB is cut there.
  std::vector<int32_t> encode(std::string_view text) const;

  // The bytes of the tokens; of end_of_text() "<|endoftext|>". decode(encode(text)) is the text. Throws
  // Error(Exit::data) unless 0 <= token < size().
  std::string decode(std::span<const int32_t> tokens) const;

  // What a file holds that read() reads as this vocabulary. Equal vocabularies have equal texts.
  const std::string& text() const { return text_; }

 private:
  class Merger;
  Vocabulary() = default;

  PreTokenPattern pattern_;
  std::string text_;
  std::vector<std::string> tokens_;                 // their bytes
  std::vector<std::pair<int32_t, int32_t>> parts_;  // of each merge
  std::unordered_map<uint64_t, int32_t> merge_of_;  // the token of two neighbours
};

}  // namespace ddp
