#include "data/val_split.h"

#include "core/error.h"
#include "core/keyed_hash.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace ddp {

uint64_t val_split_key(uint64_t seed, std::string_view class_name, std::string_view path) {
  KeyedHash hash(seed, Operation::val_split);
  hash.add(class_name);
  hash.add(path);
  return hash.value();
}

void split_validation(PictureLists& lists, double fraction, uint64_t seed) {
  require(fraction >= 0 && fraction < 1, Exit::usage,
          "--val-split {} is out of range: give a share of each class from 0 up to but not including 1", fraction);
  const PictureList all = std::exchange(lists.train, {});
  DDP_EXPECT(lists.val.size() == 0);
  const uint64_t threshold = static_cast<uint64_t>(std::ldexp(fraction, 64));  // exact: fraction < 1

  struct Last {  // the file of a class that stays
    uint64_t key = 0;
    int64_t file = -1;
  };
  std::vector<Last> last(all.classes());
  std::vector<bool> chosen(all.size());
  for (int64_t i = 0; i < all.size(); ++i) {
    const int32_t label = all.label(i);
    const uint64_t key = val_split_key(seed, all.class_name(label), all.path(i));
    chosen[i] = key < threshold;
    if (last[label].file < 0 || key > last[label].key) last[label] = {key, i};
  }
  for (const Last& file : last)
    if (file.file >= 0) chosen[file.file] = false;

  std::vector<std::string> names;
  for (int i = 0; i < all.classes(); ++i) names.emplace_back(all.class_name(i));
  PictureListBuilder train(names), val(names);
  for (int64_t i = 0; i < all.size(); ++i)
    (chosen[i] ? val : train).add(all.path(i), all.label(i), all.bytes(i), all.mtime_ns(i));
  lists.train = std::move(train).finish();
  lists.val = std::move(val).finish();
}

}  // namespace ddp
