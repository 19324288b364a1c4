// A library for LD_PRELOAD: counts the clock readings and the heap allocations of the process's first thread, and
// prints them at the end.
#include <dlfcn.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>

extern "C" void* __libc_malloc(size_t bytes);
extern "C" void* __libc_calloc(size_t count, size_t bytes);
extern "C" void* __libc_realloc(void* memory, size_t bytes);
extern "C" void* __libc_memalign(size_t alignment, size_t bytes);

namespace {

long readings = 0, allocations = 0;

bool first_thread() {
  thread_local const bool first = ::syscall(SYS_gettid) == ::getpid();
  return first;
}

struct Report {
  ~Report() { std::fprintf(stderr, "counted: %ld clock readings, %ld allocations\n", readings, allocations); }
} const report;

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* to) {
  using Function = int(clockid_t, timespec*);
  static auto* const function = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, "clock_gettime"));
  if (first_thread()) ++readings;
  return function(clock, to);
}

extern "C" void* malloc(size_t bytes) {
  if (first_thread()) ++allocations;
  return __libc_malloc(bytes);
}
extern "C" void* calloc(size_t count, size_t bytes) {
  if (first_thread()) ++allocations;
  return __libc_calloc(count, bytes);
}
extern "C" void* realloc(void* memory, size_t bytes) {
  if (first_thread()) ++allocations;
  return __libc_realloc(memory, bytes);
}
extern "C" void* aligned_alloc(size_t alignment, size_t bytes) {
  if (first_thread()) ++allocations;
  return __libc_memalign(alignment, bytes);
}
