// A library for LD_PRELOAD: threads or memory are short. The environment says how:
//
//   DDP_THREADS  std::thread can start so many threads in a process; those of MPI's own libraries are not counted
//   DDP_BYTES    malloc() gives at most so many bytes at once
//   DDP_RANK     only this rank of mpirun has these limits
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <string_view>

namespace {

// The limit that a variable of the environment sets in this process.
int limit(const char* variable) {
  const char* const value = std::getenv(variable);
  const char* const limited = std::getenv("DDP_RANK");
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const bool holds = value && (!limited || (rank && std::string_view(rank) == limited));
  return holds ? std::atoi(value) : INT_MAX;
}

bool by_std_thread(const void* caller) {
  Dl_info info{};
  return ::dladdr(caller, &info) != 0 && std::string_view(info.dli_fname).find("libstdc++") != std::string_view::npos;
}

std::atomic<int> started{0};

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                              void* argument) {
  using Function = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static auto* const real = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, "pthread_create"));
  if (by_std_thread(__builtin_return_address(0)) && started++ >= limit("DDP_THREADS")) return EAGAIN;
  return real(thread, attributes, run, argument);
}

extern "C" void* __libc_malloc(size_t bytes);  // of glibc

extern "C" void* malloc(size_t bytes) {
  if (bytes > 10'000'000 && bytes > static_cast<size_t>(limit("DDP_BYTES"))) {
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_malloc(bytes);
}
