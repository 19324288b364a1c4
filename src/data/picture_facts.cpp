#include "data/picture_facts.h"

#include "core/error.h"
#include "data/packed.h"

#include <algorithm>

namespace ddp {
namespace {

using Pairs = PictureFacts::Pairs;

constexpr size_t kMostReasonBytes = 200;  // fits into a byte

template <class T>
void append_sorted(std::vector<T>& to, const std::vector<T>& from) {
  const auto middle = to.insert(to.end(), from.begin(), from.end());
  std::inplace_merge(to.begin(), middle, to.end());
}

std::string_view take_text(std::string_view& from, size_t bytes) {
  DDP_EXPECT(bytes <= from.size());
  const std::string_view taken = from.substr(0, bytes);
  from.remove_prefix(bytes);
  return taken;
}

template <class T>
T taken(std::string_view& from) {
  T value = 0;
  DDP_EXPECT(take(from, value));
  return value;
}

}  // namespace

void PictureFacts::add(const CheckedPicture& one, bool full) {
  if (!one.reason.empty()) {
    broken.emplace_back(static_cast<int64_t>(one.id), one.reason);
    return;
  }
  ++pictures;
  grey += one.grey ? 1 : 0;
  animated += one.animated ? 1 : 0;
  smallest = {std::min<int64_t>(smallest.w, one.w), std::min<int64_t>(smallest.h, one.h)};
  largest = {std::max<int64_t>(largest.w, one.w), std::max<int64_t>(largest.h, one.h)};
  if (full) content.emplace_back(one.content, static_cast<int64_t>(one.id));
}

void PictureFacts::merge(const PictureFacts& other) {
  pictures += other.pictures;
  grey += other.grey;
  animated += other.animated;
  smallest = {std::min(smallest.w, other.smallest.w), std::min(smallest.h, other.smallest.h)};
  largest = {std::max(largest.w, other.largest.w), std::max(largest.h, other.largest.h)};
  append_sorted(broken, other.broken);
  append_sorted(content, other.content);
  checked.insert(checked.end(), other.checked.begin(), other.checked.end());
}

std::string PictureFacts::pack(size_t reasons) const {
  std::string bytes;
  for (const int64_t number : {pictures, grey, animated, smallest.w, smallest.h, largest.w, largest.h})
    put(bytes, number);
  for (size_t i = 0; i < broken.size(); ++i) {
    const auto& [picture, reason] = broken[i];
    const size_t length = i < reasons ? std::min(reason.size(), kMostReasonBytes) : 0;
    put(bytes, static_cast<uint32_t>(picture));
    put(bytes, static_cast<uint8_t>(length));
    bytes.append(reason, 0, length);
  }
  return bytes;
}

PictureFacts PictureFacts::unpack(std::string_view bytes) {
  PictureFacts facts;
  for (int64_t* number : {&facts.pictures, &facts.grey, &facts.animated, &facts.smallest.w, &facts.smallest.h,
                          &facts.largest.w, &facts.largest.h})
    *number = taken<int64_t>(bytes);
  while (!bytes.empty()) {
    const int64_t picture = taken<uint32_t>(bytes);
    const size_t length = taken<uint8_t>(bytes);
    facts.broken.emplace_back(picture, take_text(bytes, length));
  }
  return facts;
}

std::string pack_pairs(const Pairs& pairs) {
  std::string bytes;
  for (const auto& [number, picture] : pairs) {
    put(bytes, number);
    put(bytes, static_cast<uint32_t>(picture));
  }
  return bytes;
}

Pairs unpack_pairs(std::string_view bytes) {
  Pairs pairs;
  while (!bytes.empty()) {
    const auto number = taken<uint64_t>(bytes);
    pairs.emplace_back(number, int64_t{taken<uint32_t>(bytes)});
  }
  return pairs;
}

Pairs equal_content(const Pairs& a, const Pairs& b) {
  Pairs equal;
  auto other = b.begin();
  for (const auto& [hash, picture] : a) {
    while (other != b.end() && other->first < hash) ++other;
    if (other != b.end() && other->first == hash) equal.emplace_back(picture, other->second);
  }
  std::ranges::sort(equal);
  return equal;
}

}  // namespace ddp
