// Shared by the fuzz targets.
#pragma once

#include "core/error.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>

namespace ddp {

// Aborts the program unless `holds`. libFuzzer reports the input.
inline void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::abort();
}

inline double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Ends the program if the scope takes more processor time than a reader in linear time.
class LinearTime {
 public:
  explicit LinearTime(size_t bytes) : end_(processor_seconds() + 2 + 5e-6 * static_cast<double>(bytes)) {}
  ~LinearTime() { check(processor_seconds() < end_, "a reader takes 5 us for each byte, and 2 s, at most"); }
  LinearTime(const LinearTime&) = delete;
  LinearTime& operator=(const LinearTime&) = delete;

 private:
  const double end_;
};

// Counts the readers that have accepted their input, and prints the number at the program's end.
struct Accepted {
  ~Accepted() { std::printf("accepted: %d\n", readers); }
  int readers = 0;
};
inline Accepted accepted;

// Runs a reader, which may accept its input or throw an Error with this code. Anything else ends the program.
template <class Read>
void read_or_refuse(Exit code, Read&& read) {
  try {
    read();
    ++accepted.readers;
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
