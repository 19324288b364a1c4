#include "app/commands/show/npy_file.h"

#include "core/error.h"

#include <fmt/format.h>

#include <bit>
#include <string>

namespace ddp {

static_assert(std::endian::native == std::endian::little);

void NpyFile::begin(const char* type, std::span<const int64_t> shape) {
  constexpr size_t kPrefix = 10, kAlignment = 64;  // the data begin at a multiple of kAlignment
  std::string sizes;
  for (const int64_t size : shape) sizes += fmt::format("{}, ", size);
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, sizes);
  header.append(kAlignment - 1 - (kPrefix + header.size()) % kAlignment, ' ');
  header += '\n';
  std::string prefix = "\x93NUMPY";
  for (const size_t byte : {size_t{1}, size_t{0}, header.size() & 0xff, header.size() >> 8})  // version, length
    prefix += static_cast<char>(byte);
  DDP_EXPECT(prefix.size() == kPrefix);
  file_.write(prefix);
  file_.write(header);
}

}  // namespace ddp
