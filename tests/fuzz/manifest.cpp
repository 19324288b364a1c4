// An input is the manifest.json of a checkpoint. A manifest that is read must be written as the same text.
#include "checkpoint/manifest.h"

#include "tests/fuzz/check.h"
#include "tests/fuzz/repeat.h"

#include <string>

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ddp::LinearTime limit(size);
  const std::string text(reinterpret_cast<const char*>(data), size), names[] = {"a.safetensors", "state.json"};
  ddp::read_or_refuse(ddp::Exit::data, [&] {
    ddp::check(manifest_text(ddp::parse_manifest(text, "file", names)) == text, "a manifest survives being written");
  });
  return 0;
}
