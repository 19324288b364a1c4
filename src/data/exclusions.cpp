#include "data/exclusions.h"

#include "core/error.h"

#include <algorithm>
#include <utility>

namespace ddp {
namespace {

bool has(const std::vector<BrokenPicture>& pictures, int64_t picture) {
  return std::ranges::binary_search(pictures, picture, {}, &BrokenPicture::picture);
}

void insert(std::vector<BrokenPicture>& pictures, BrokenPicture one) {
  pictures.insert(std::ranges::lower_bound(pictures, one.picture, {}, &BrokenPicture::picture), std::move(one));
}

}  // namespace

bool are_gone(int64_t broken, int64_t pictures) { return broken > std::max<int64_t>(10, pictures / 100); }

Exclusions::Exclusions(PictureList list, const std::vector<BrokenPicture>& known)
    : pictures_(list.size()), list_(std::move(list)) {
  for (const BrokenPicture& one : known) {
    require(one.picture >= 0 && one.picture < list_.size(), Exit::data,
            "the run excludes picture {}, and the data have {}", one.picture, list_.size());
    if (!contains(one.picture)) insert(known_, one);
  }
}

bool Exclusions::contains(int64_t picture) const { return has(known_, picture) || has(found_, picture); }

void Exclusions::found(int64_t picture, int64_t step, const std::string& reason) {
  const int64_t bytes = are_pictures() ? list_.bytes(picture) : 0;
  if (!contains(picture)) insert(found_, {.picture = picture, .bytes = bytes, .step = step, .reason = reason});
}

std::vector<BrokenPicture> Exclusions::agree(std::vector<BrokenPicture> pictures) {
  found_.clear();
  std::ranges::stable_sort(pictures, {}, &BrokenPicture::picture);
  std::vector<BrokenPicture> added;
  for (BrokenPicture& one : pictures) {
    if (has(known_, one.picture)) continue;
    insert(known_, one);
    added.push_back(std::move(one));
  }
  return added;
}

}  // namespace ddp
