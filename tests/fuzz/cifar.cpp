// An input is a file of records with images of 2 x 2 pixels and one or two labels.
#include "data/cifar.h"

#include "tests/fuzz/check.h"

#include <algorithm>

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const int labels : {1, 2})
    ddp::read_or_refuse(ddp::Exit::data, [&] {
      ddp::CifarRecords records{.label_bytes = labels, .label_at = labels - 1, .classes = 20, .side = 2};
      records.append("file", {reinterpret_cast<const char*>(data), size});
      ddp::check(records.pixels.size() == 12 * records.labels.size() &&
                     records.labels.size() * (12 + static_cast<size_t>(labels)) == size,
                 "each byte is read once");
      ddp::check(std::ranges::all_of(records.labels, [](uint8_t label) { return label < 20; }),
                 "each label is of a class");
    });
  return 0;
}
