#include "data/text/vocabulary.h"

#include "core/error.h"
#include "core/printable.h"
#include "core/read_file.h"
#include "data/text/byte_alphabet.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace ddp {
namespace {

constexpr ByteAlphabet kAlphabet;
constexpr std::string_view kEndOfText = "<|endoftext|>", kVersion = "#version: 0.2\n";

uint64_t neighbours(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

// In UTF-8.
std::string written(uint8_t byte) {
  const char32_t character = kAlphabet.character(byte);
  if (character < 0x80) return {static_cast<char>(character)};
  return {static_cast<char>(0xC0 | character >> 6), static_cast<char>(0x80 | (character & 0x3F))};
}

}  // namespace

// Encodes pre-tokens. The symbols of one are a linked list; a heap has the possible merges, of which some are out of
// date. So n bytes take O(n log n) steps.
class Vocabulary::Merger {
 public:
  explicit Merger(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  void append(std::string_view pre_token, std::vector<int32_t>& tokens) {
    for (; !pre_token.empty(); pre_token.remove_prefix(std::min(pre_token.size(), kLongestPreToken))) {
      begin(pre_token.substr(0, kLongestPreToken));
      merge();
      for (uint32_t at = 0; at < symbols_.size(); at = symbols_[at].next) tokens.push_back(symbols_[at].token);
    }
  }

 private:
  struct Symbol {
    int32_t token;  // kMerged: it is in the symbol before it
    uint32_t before, next;
  };
  static constexpr int32_t kMerged = -1;

  void begin(std::string_view pre_token) {
    symbols_.clear();
    for (const char byte : pre_token) {
      const auto at = static_cast<uint32_t>(symbols_.size());
      symbols_.push_back({kAlphabet.id(static_cast<uint8_t>(byte)), at - 1, at + 1});
    }
    for (uint32_t at = 0; at < symbols_.size(); ++at) propose(at);
  }

  // The merge of the symbol with the next one, if there is one.
  void propose(uint32_t at) {
    const uint32_t next = symbols_[at].next;
    if (next == symbols_.size()) return;
    const auto found = vocabulary_.merge_of_.find(neighbours(symbols_[at].token, symbols_[next].token));
    if (found != vocabulary_.merge_of_.end()) possible_.push(static_cast<uint64_t>(found->second) << 32 | at);
  }

  void merge() {
    for (; !possible_.empty();) {
      const auto token = static_cast<int32_t>(possible_.top() >> 32);
      const auto at = static_cast<uint32_t>(possible_.top());
      possible_.pop();
      Symbol& left = symbols_[at];
      if (left.token == kMerged || left.next == symbols_.size()) continue;
      Symbol& right = symbols_[left.next];
      if (vocabulary_.parts_[token - ByteAlphabet::kBytes] != std::pair(left.token, right.token)) continue;
      left.token = token;
      left.next = right.next;
      right.token = kMerged;
      if (left.next < symbols_.size()) symbols_[left.next].before = at;
      propose(at);
      if (at > 0) propose(left.before);
    }
  }

  const Vocabulary& vocabulary_;
  std::vector<Symbol> symbols_;
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> possible_;  // token and position
};

Vocabulary Vocabulary::bytes() { return parse("bytes", ""); }

Vocabulary Vocabulary::read(const std::filesystem::path& path) {
  constexpr int64_t kMostBytes = int64_t{64} << 20;
  return parse(printable(path.native()), read_whole_file(path, kMostBytes));
}

Vocabulary Vocabulary::named(const std::string& word) { return word == "bytes" ? bytes() : read(word); }

Vocabulary Vocabulary::parse(const std::string& name, std::string_view file) {
  constexpr int64_t kMostMerges = 300'000;
  Vocabulary vocabulary;
  std::unordered_map<std::string, int32_t> token_of;  // by what the file writes
  for (int32_t id = 0; id < ByteAlphabet::kBytes; ++id) {
    const uint8_t byte = kAlphabet.byte(id);
    vocabulary.tokens_.emplace_back(1, static_cast<char>(byte));
    token_of.emplace(written(byte), id);
  }
  vocabulary.text_ = kVersion;
  int64_t line_number = 0;
  for (size_t begin = 0, end = 0; begin < file.size(); begin = end + 1) {
    end = std::min(file.find('\n', begin), file.size());
    std::string_view line = file.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (++line_number == 1 && line.starts_with("#version")) continue;
    const auto refuse = [&](const std::string& why) { fail(Exit::data, "{}, line {}: {}", name, line_number, why); };
    const size_t space = line.find(' ');
    if (space == line.npos || line.find(' ', space + 1) != line.npos)
      refuse(
          fmt::format("'{}' is not two tokens with a space between them; give a file of merges: GPT-2's vocab.bpe, "
                      "or merges.txt of Hugging Face",
                      shortened(line)));
    int32_t parts[2];
    for (const bool right : {false, true}) {
      const std::string part(right ? line.substr(space + 1) : line.substr(0, space));
      const auto found = token_of.find(part);
      if (found == token_of.end())
        refuse(fmt::format("no line before it makes the token '{}'; is this the whole file, in its order?",
                           shortened(part)));
      parts[right] = found->second;
    }
    if (std::ssize(vocabulary.parts_) == kMostMerges)
      refuse(fmt::format("a vocabulary may have {} merges", kMostMerges));
    const auto id = static_cast<int32_t>(vocabulary.tokens_.size());
    const std::string token = std::string(line.substr(0, space)) + std::string(line.substr(space + 1));
    if (!token_of.emplace(token, id).second)
      refuse(fmt::format("a line before it makes the token '{}' too; GPT-2's files make each token once",
                         shortened(token)));
    vocabulary.tokens_.push_back(vocabulary.tokens_[parts[0]] + vocabulary.tokens_[parts[1]]);
    vocabulary.parts_.emplace_back(parts[0], parts[1]);
    vocabulary.merge_of_.emplace(neighbours(parts[0], parts[1]), id);
    vocabulary.text_.append(line) += '\n';
  }
  vocabulary.tokens_.emplace_back(kEndOfText);
  return vocabulary;
}

std::vector<int32_t> Vocabulary::encode(std::string_view text) const {
  constexpr size_t kMostKnown = size_t{1} << 18;
  struct Place {
    size_t begin, end;  // in `tokens`
  };
  std::vector<int32_t> tokens;
  std::unordered_map<std::string_view, Place> known;  // most pre-tokens come again
  Merger merger(*this);
  PreTokens pre_tokens(pattern_, text);
  for (std::string_view pre_token; pre_tokens.next(pre_token);) {
    if (const auto found = known.find(pre_token); found != known.end()) {
      for (size_t i = found->second.begin; i < found->second.end; ++i) tokens.push_back(tokens[i]);
      continue;
    }
    const size_t begin = tokens.size();
    merger.append(pre_token, tokens);
    if (known.size() < kMostKnown) known.emplace(pre_token, Place{begin, tokens.size()});
  }
  return tokens;
}

std::string Vocabulary::decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t token : tokens) {
    require(token >= 0 && token < size(), Exit::data, "the token {} is not in the vocabulary, which has {}", token,
            size());
    text += tokens_[token];
  }
  return text;
}

}  // namespace ddp
