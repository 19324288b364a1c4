// An input is a block of two lists of pictures. What is read must be written as the same lists. Validation data are
// split off the training list, and each picture goes to one side.
#include "data/picture_lists.h"
#include "data/val_split.h"
#include "tests/fuzz/check.h"

#include <cstring>

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::shared_ptr<std::byte[]> block(new std::byte[size]);  // the sanitizer sees each read behind its end
  if (size > 0) std::memcpy(block.get(), data, size);
  ddp::PictureLists lists;
  ddp::read_or_refuse(ddp::Exit::internal, [&] { lists = ddp::PictureLists::from_block(block, size); });
  for (const ddp::PictureList* list : {&lists.train, &lists.val}) {  // no error is thrown from here on
    std::vector<std::string> names;
    for (int i = 0; i < list->classes(); ++i) names.emplace_back(list->class_name(i));
    ddp::PictureListBuilder builder(names);
    for (int64_t i = 0; i < list->size(); ++i)
      builder.add(list->path(i), list->label(i), list->bytes(i), list->mtime_ns(i));
    ddp::check(std::move(builder).finish().hash() == list->hash(), "a list survives being written");
  }
  const int64_t pictures = lists.train.size();
  lists.val = {};
  ddp::split_validation(lists, size % 2 == 0 ? 0.3 : 0.999, size);
  ddp::check(lists.train.size() + lists.val.size() == pictures, "a split keeps every picture");
  ddp::check(pictures == 0 || lists.train.size() > 0, "a picture remains for training");
  return 0;
}
