// An input is read as a WebP file.
#include "data/codec/webp.h"

#include "tests/fuzz/pictures.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ddp::decode_or_refuse<ddp::WebpDecoder>(ddp::read_webp_header, 1, {data, size});
  return 0;
}
