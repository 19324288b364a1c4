// An input is read as an image file and as a label file, gzipped or not, beside a valid file of the other kind.
#include "data/idx.h"

#include "tests/fuzz/check.h"
#include "tests/fuzz/gzip.h"

#include <sstream>
#include <vector>

namespace ddp {
namespace {

using namespace std::string_literals;

// Two images of 1 x 2 pixels, two labels.
const std::string kImageFile = "\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x02\1\2\3\4"s;
const std::string kLabelFile = "\0\0\x08\x01\0\0\0\x02\3\4"s;
constexpr int kClasses = 10;

void read(const std::string& images, const std::string& labels) {
  std::istringstream image_stream(images), label_stream(labels);
  const auto data = read_idx(IdxFile{"images", image_stream}, IdxFile{"labels", label_stream}, kClasses);
  std::vector<uint8_t> pixels(data->image_shape().elements());
  data->read({data->size() - 1}, pixels);
  for (int64_t i = 0; i < data->size(); ++i)
    check(data->label(i) >= 0 && data->label(i) < kClasses, "each label is of a class");
}

}  // namespace
}  // namespace ddp

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const bool packed = size > 0 && data[0] == 0x1f, labels = size > 3 && data[3] == 1;
  if (packed || !labels) ddp::read_or_refuse(ddp::Exit::data, [&] { ddp::read(bytes, ddp::kLabelFile); });
  if (packed || labels) ddp::read_or_refuse(ddp::Exit::data, [&] { ddp::read(ddp::kImageFile, bytes); });
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

// A mutated gzip stream almost never has a valid checksum. So every second mutation changes the unpacked content.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  std::vector<uint8_t> content;
  if (seed % 2 == 0 || !ddp::unpack({data, size}, content)) return LLVMFuzzerMutate(data, size, most);
  const size_t unpacked = content.size();
  content.resize(unpacked + 64);
  content.resize(LLVMFuzzerMutate(content.data(), unpacked, content.size()));
  const std::vector<uint8_t> packed = ddp::pack(content);
  if (packed.size() > most) return size;
  std::copy(packed.begin(), packed.end(), data);
  return packed.size();
}
