#include "data/picture_lists.h"

#include "core/error.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>

namespace ddp {
namespace {

// The block: the size of the training list, that list up to a multiple of 8 bytes, the validation list.
constexpr size_t kListHeader = sizeof(uint64_t);
size_t aligned(size_t bytes) { return (bytes + 7) / 8 * 8; }

}  // namespace

std::vector<std::byte> PictureLists::block() const {
  const std::span<const std::byte> a = train.block(), b = val.block();
  std::vector<std::byte> result(kListHeader + aligned(a.size()) + b.size());
  const uint64_t train_bytes = a.size();
  std::memcpy(result.data(), &train_bytes, kListHeader);
  if (!a.empty()) std::memcpy(result.data() + kListHeader, a.data(), a.size());
  if (!b.empty()) std::memcpy(result.data() + kListHeader + aligned(a.size()), b.data(), b.size());
  return result;
}

PictureLists PictureLists::from_block(const std::shared_ptr<const std::byte[]>& bytes, size_t size) {
  const std::span<const std::byte> whole(bytes.get(), size);
  uint64_t train_bytes = 0;
  if (size >= kListHeader) std::memcpy(&train_bytes, whole.data(), kListHeader);
  require(size >= kListHeader && train_bytes <= size - kListHeader && aligned(train_bytes) <= size - kListHeader,
          Exit::internal, "the shared list of pictures is broken: its parts do not fill it");
  const auto rest = whole.subspan(kListHeader);
  PictureLists lists;
  if (train_bytes > 0) lists.train = PictureList::from_block(bytes, rest.first(train_bytes));
  if (const auto val = rest.subspan(aligned(train_bytes)); !val.empty())
    lists.val = PictureList::from_block(bytes, val);
  return lists;
}

std::string difference_of_hosts(const std::vector<ListedHost>& hosts) {
  constexpr size_t kShown = 3;
  std::map<uint64_t, std::vector<const ListedHost*>> lists;
  for (const ListedHost& host : hosts) {
    std::vector<const ListedHost*>& same = lists[host.hash];
    if (std::ranges::none_of(same, [&](const ListedHost* other) { return other->host == host.host; }))
      same.push_back(&host);
  }
  if (lists.size() < 2) return "";
  std::string text;
  for (const auto& [hash, same] : lists) {
    for (size_t i = 0; i < std::min(kShown, same.size()); ++i) text += (i == 0 ? "\n  " : ", ") + same[i]->host;
    if (same.size() > kShown) text += fmt::format(" and {} more hosts", same.size() - kShown);
    text += fmt::format(": {} training and {} validation pictures (list {:016x})", same[0]->train, same[0]->val, hash);
  }
  return text;
}

}  // namespace ddp
