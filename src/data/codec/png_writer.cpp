#include "data/codec/png_writer.h"

#include "core/error.h"

#include <spng.h>

#include <cstdlib>
#include <memory>
#include <new>

namespace ddp {
namespace {

void require_encoded(int code) {
  if (code == SPNG_EMEM) throw std::bad_alloc();
  require(code == SPNG_OK, Exit::output, "cannot encode a PNG file: {}", spng_strerror(code));
}

}  // namespace

std::string encode_png(int64_t w, int64_t h, std::span<const uint8_t> rgb) {
  DDP_EXPECT(w > 0 && h > 0 && std::ssize(rgb) == w * h * 3);
  const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> context(spng_ctx_new(SPNG_CTX_ENCODER), spng_ctx_free);
  if (!context) throw std::bad_alloc();
  spng_ihdr header{};
  header.width = static_cast<uint32_t>(w);
  header.height = static_cast<uint32_t>(h);
  header.bit_depth = 8;
  header.color_type = SPNG_COLOR_TYPE_TRUECOLOR;
  require_encoded(spng_set_ihdr(context.get(), &header));
  require_encoded(spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1));
  require_encoded(spng_encode_image(context.get(), rgb.data(), rgb.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE));
  size_t size = 0;
  int code = SPNG_OK;
  const std::unique_ptr<void, void (*)(void*)> file(spng_get_png_buffer(context.get(), &size, &code), std::free);
  require_encoded(code);
  return {static_cast<const char*>(file.get()), size};
}

}  // namespace ddp
