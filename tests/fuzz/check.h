// What fuzz targets have in common.
#pragma once

#include "core/error.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>

namespace ddp {

// Ends the program, which libFuzzer reports with the input, unless `holds`.
inline void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::abort();
}

// A reader may take its input, or refuse it with this code; all else ends the program.
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
