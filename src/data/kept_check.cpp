#include "data/kept_check.h"

#include "core/error.h"
#include "core/keyed_hash.h"
#include "data/codec/picture.h"
#include "data/packed.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace ddp {
namespace {

constexpr std::string_view kKind = "ddp_train check 1\n";
constexpr size_t kLongestReason = 255;

// The numbers of fixed size, and the length of the reason.
template <class Picture, class Field>
bool each_field(Picture& p, Field&& field) {
  return field(p.id) && field(p.bytes) && field(p.mtime_ns) && field(p.memory) && field(p.content) && field(p.w) &&
         field(p.h);
}

std::optional<CheckedPicture> take_picture(std::string_view& from) {
  CheckedPicture p;
  uint8_t kind = 0, length = 0;
  if (!each_field(p, [&](auto& value) { return take(from, value); }) || !take(from, kind) || !take(from, length) ||
      from.size() < length)
    return std::nullopt;
  p.grey = (kind & 1) != 0;
  p.animated = (kind & 2) != 0;
  p.reason = from.substr(0, length);
  from.remove_prefix(length);
  return p;
}

bool is_possible(const CheckedPicture& p) {
  if (p.bytes < 0 || p.memory < 0 || p.w < 0 || p.h < 0) return false;
  return !p.reason.empty() || (p.w >= 1 && p.h >= 1 && int64_t{p.w} * p.h <= kMaxPicturePixels && p.memory >= p.bytes);
}

uint64_t hash_of(std::string_view bytes) {
  KeyedHash hash(1, Operation::picture_list);
  hash.add(bytes);
  return hash.value();
}

}  // namespace

uint64_t path_hash(std::string_view path) {
  KeyedHash hash(2, Operation::picture_list);
  hash.add(path);
  return hash.value();
}

std::string pack_checked(std::span<const CheckedPicture> pictures) {
  std::string bytes;
  for (const CheckedPicture& p : pictures) {
    each_field(p, [&](auto value) { return put(bytes, value), true; });
    const size_t length = std::min(p.reason.size(), kLongestReason);
    put(bytes, static_cast<uint8_t>((p.grey ? 1 : 0) | (p.animated ? 2 : 0)));
    put(bytes, static_cast<uint8_t>(length));
    bytes.append(p.reason, 0, length);
  }
  return bytes;
}

std::vector<CheckedPicture> unpack_checked(std::string_view bytes) {
  std::vector<CheckedPicture> pictures;
  while (!bytes.empty()) {
    auto one = take_picture(bytes);
    DDP_EXPECT(one);
    pictures.push_back(std::move(*one));
  }
  return pictures;
}

KeptCheck::KeptCheck(std::vector<CheckedPicture> pictures) : pictures_(std::move(pictures)) {
  std::ranges::reverse(pictures_);
  std::ranges::stable_sort(pictures_, {}, &CheckedPicture::id);
  const auto equal = std::ranges::unique(pictures_, {}, &CheckedPicture::id);
  pictures_.erase(equal.begin(), equal.end());
}

const CheckedPicture* KeptCheck::find(std::string_view path) const {
  if (pictures_.empty()) return nullptr;
  const uint64_t id = path_hash(path);
  const auto found = std::ranges::lower_bound(pictures_, id, {}, &CheckedPicture::id);
  return found != pictures_.end() && found->id == id ? &*found : nullptr;
}

std::string KeptCheck::file(bool exif) const {
  const std::string body = pack_checked(pictures_);
  std::string content(kKind);
  put(content, static_cast<uint8_t>(exif));
  put(content, hash_of(body));
  return content + body;
}

KeptCheck KeptCheck::from_file(std::string_view content, bool exif) {
  uint8_t turned = 0;
  uint64_t hash = 0;
  if (!content.starts_with(kKind)) return {};
  content.remove_prefix(kKind.size());
  if (!take(content, turned) || !take(content, hash) || (turned != 0) != exif || hash != hash_of(content)) return {};
  std::vector<CheckedPicture> pictures;
  while (!content.empty()) {
    auto one = take_picture(content);
    if (!one || !is_possible(*one)) return {};
    pictures.push_back(std::move(*one));
  }
  return KeptCheck(std::move(pictures));
}

}  // namespace ddp
