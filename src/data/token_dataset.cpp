#include "data/token_dataset.h"

#include "core/error.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace ddp {

std::vector<TokenPart> split_off(std::vector<TokenPart>& parts, double share) {
  DDP_EXPECT(share >= 0 && share <= 1);
  int64_t tokens = 0;
  for (const TokenPart& part : parts) tokens += part.tokens;
  std::vector<TokenPart> end;
  for (auto left = static_cast<int64_t>(share * static_cast<double>(tokens)); left > 0;) {
    TokenPart& last = parts.back();
    const int64_t taken = std::min(left, last.tokens);
    last.tokens -= taken;
    left -= taken;
    end.insert(end.begin(), {last.file, last.first + last.tokens, taken});
    if (last.tokens == 0) parts.pop_back();
  }
  return end;
}

TokenDataset::TokenDataset(std::vector<TokenPart> parts, int64_t sequence_length, int64_t vocabulary)
    : parts_(std::move(parts)), sequence_length_(sequence_length), vocabulary_(vocabulary) {
  DDP_EXPECT(!parts_.empty() && sequence_length >= 1 && vocabulary >= 1);
  int64_t windows = 0;
  for (const TokenPart& part : parts_) {
    DDP_EXPECT(part.first >= 0 && part.tokens >= 0 && part.first + part.tokens <= part.file->tokens());
    windows += std::max<int64_t>(0, part.tokens - 1) / sequence_length_;
    ends_.push_back(windows);
  }
  require(windows > 0, Exit::data,
          "{}{}: no file has the {} tokens of one window; use more text, or a shorter --sequence-length",
          parts_.front().file->name(), parts_.size() > 1 ? " and the files after it" : "", sequence_length_ + 1);
  require(windows <= std::numeric_limits<int32_t>::max(), Exit::data,
          "{}{}: {} windows are more than {}; use a longer --sequence-length", parts_.front().file->name(),
          parts_.size() > 1 ? " and the files after it" : "", windows, std::numeric_limits<int32_t>::max());
}

int64_t TokenDataset::tokens() const {
  int64_t sum = 0;
  for (const TokenPart& part : parts_) sum += part.tokens;
  return sum;
}

TokenDataset::Place TokenDataset::place_of(int64_t index) const {
  DDP_EXPECT(index >= 0 && index < size());
  const auto part = static_cast<size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
  const int64_t before = part == 0 ? 0 : ends_[part - 1];
  return {*parts_[part].file, parts_[part].first + (index - before) * sequence_length_};
}

// The time in which a window of a file is read.
class TokenDataset::Reading {
 public:
  Reading(const TokenDataset& data, const TokenFile& file) : data_(data), file_(file) {
    const std::lock_guard lock(data_.mutex_);
    data_.busy_.push_back(&file_);
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  ~Reading() {
    const std::lock_guard lock(data_.mutex_);
    data_.busy_.erase(std::ranges::find(data_.busy_, &file_));
  }

 private:
  const TokenDataset& data_;
  const TokenFile& file_;
};

std::string TokenDataset::being_read() const {
  const std::lock_guard lock(mutex_);
  return busy_.empty() ? "" : busy_.front()->name();
}

void TokenDataset::read(const SampleKey& key, std::span<uint8_t> bytes) const {
  DDP_EXPECT(std::ssize(bytes) == sample_bytes());
  const Place place = place_of(key.index);
  const Reading reading(*this, place.file);
  place.file.read(place.first, vocabulary_, bytes);
}

void TokenDataset::announce(std::span<const int64_t> indices) const {
  for (const int64_t index : indices) {
    const Place place = place_of(index);
    place.file.announce(place.first, sequence_length_ + 1);
  }
}

}  // namespace ddp
