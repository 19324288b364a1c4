// An input is read as an EXIF block, and as a JPEG file that has one.
#include "data/codec/exif.h"

#include "tests/fuzz/check.h"

namespace ddp {
namespace {

void check_orientation(std::span<const uint8_t> tiff) {
  const int orientation = exif_orientation(tiff);
  check(orientation >= 1 && orientation <= 8, "there are eight orientations");
}

}  // namespace
}  // namespace ddp

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ddp::check_orientation({data, size});
  ddp::check_orientation(ddp::find_jpeg_exif({data, size}));
  return 0;
}
