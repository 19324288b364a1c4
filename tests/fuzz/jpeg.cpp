// An input is read as a JPEG file, at 1/1 to 1/8.
#include "data/codec/jpeg.h"

#include "tests/fuzz/pictures.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ddp::decode_or_refuse<ddp::JpegDecoder>(ddp::read_jpeg_header, 1 << size % 4, {data, size});
  return 0;
}
