// An input is a safetensors file.
#include "checkpoint/safetensors.h"

#include "tests/fuzz/check.h"
#include "tests/fuzz/repeat.h"

#include <sstream>

namespace ddp {
namespace {

void read(const std::string& bytes) {
  std::istringstream stream(bytes);
  size_t stored = 0;
  for (const auto& [name, tensor] : read_safetensors(stream, "file")) {
    check(name == tensor.name, "tensors are found by their names");
    uint64_t count = 1;
    for (const int64_t dimension : tensor.shape) count *= static_cast<uint64_t>(dimension);
    check(tensor.integer ? tensor.values.empty() && count == 1 : tensor.values.size() == count,
          "a tensor has as many values as its shape says");
    stored += tensor.integer ? 8 : (tensor.is_mask ? 1 : 2) * tensor.values.size();
  }
  check(stored <= bytes.size(), "tensors are no larger than their file");
  size_t texts = 0;
  for (const auto& [key, text] : read_safetensors_metadata(stream, "file")) texts += key.size() + text.size();
  check(texts <= bytes.size(), "texts are no larger than their file");
}

}  // namespace
}  // namespace ddp

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ddp::LinearTime limit(size);
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  ddp::read_or_refuse(ddp::Exit::data, [&] { ddp::read(bytes); });
  return 0;
}
