// An input is the state.json of a checkpoint. A state that is read, written and read again must be equal.
#include "checkpoint/run_state.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/repeat.h"

#include <string>

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ddp::LinearTime limit(size);
  const std::string text(reinterpret_cast<const char*>(data), size);
  ddp::read_or_refuse(ddp::Exit::data, [&] {
    const std::string written = to_json(ddp::run_state_from_json(text, "file"));
    ddp::check(to_json(ddp::run_state_from_json(written, "file")) == written, "a state survives being written");
  });
  return 0;
}
