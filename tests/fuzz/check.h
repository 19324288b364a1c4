// Shared by the fuzz targets.
#pragma once

#include "core/error.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>

namespace ddp {

// Aborts the program unless `holds`. libFuzzer reports the input.
inline void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::abort();
}

// Runs a reader, which may accept its input or throw an Error with this code. Anything else ends the program.
template <class Read>
void read_or_refuse(Exit code, Read&& read) {
  try {
    read();
  } catch (const Error& e) {
    if (e.code() != code) std::fprintf(stderr, "exit code %d: %s\n", static_cast<int>(e.code()), e.what());
    check(e.code() == code, "the error has the reader's exit code");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    check(false, "what a reader throws is an Error");
  }
}

}  // namespace ddp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
