// Files of tokens as a data set of windows, for a network that says the next token. Window i of a part has the tokens
// [i T, i T + T], of which the network reads the first T. So windows overlap by one token, and each token of a part is
// a label once, except its first one and a tail of less than T. No window crosses parts.
#pragma once

#include "data/dataset.h"
#include "data/token_file.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace ddp {

// Tokens [first, first + tokens) of a file.
struct TokenPart {
  std::shared_ptr<const TokenFile> file;
  int64_t first = 0, tokens = 0;
};

// Takes this share of all tokens off the end of the parts, and returns it as parts in the same order.
std::vector<TokenPart> split_off(std::vector<TokenPart>& parts, double share);

class TokenDataset final : public Dataset {
 public:
  // Throws Error(Exit::data) if there is no window, or more than the ids of samples can count.
  TokenDataset(std::vector<TokenPart> parts, int64_t sequence_length, int64_t vocabulary);

  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  ImageShape image_shape() const override { return {sequence_length_, 1, 1}; }
  int classes() const override { return static_cast<int>(vocabulary_); }
  int64_t sequence_length() const override { return sequence_length_; }
  int64_t tokens() const;  // of all parts

  // Throws Error(Exit::data), as TokenFile::read().
  void read(const SampleKey& key, std::span<uint8_t> bytes) const override;
  int32_t label(int64_t) const override { return 0; }
  bool in_memory() const override { return false; }
  std::string being_read() const override;
  void announce(std::span<const int64_t> indices) const override;

 private:
  struct Place {
    const TokenFile& file;
    int64_t first;
  };
  Place place_of(int64_t index) const;
  class Reading;

  const std::vector<TokenPart> parts_;
  const int64_t sequence_length_, vocabulary_;
  std::vector<int64_t> ends_;  // windows of the parts up to each one
  mutable std::mutex mutex_;
  mutable std::vector<const TokenFile*> busy_;  // the oldest first; guarded by mutex_
};

}  // namespace ddp
