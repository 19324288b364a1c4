// A library for LD_PRELOAD: a disk that fails for one file. The environment says for which and how:
//
//   DDP_DISK_FILE   the end of the path
//   DDP_DISK_WHEN   a path; the disk is good until it exists
//   DDP_DISK_FAULT  EIO: reads fail; ESTALE: the first read of a process fails; hang: reads do not end;
//                   slow: a read takes 0.1 s; vanish: the file is removed
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <string_view>

namespace {

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

bool fails(std::string_view path) {
  const std::string_view file = variable("DDP_DISK_FILE"), when = variable("DDP_DISK_WHEN");
  return !file.empty() && path.ends_with(file) && (when.empty() || ::access(when.data(), F_OK) == 0);
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

thread_local int failing_file = -1;
std::atomic<int> reads{0};

}  // namespace

extern "C" int openat(int folder, const char* path, int flags, ...) {
  static auto* const real = next<int(int, const char*, int, ...)>("openat");
  va_list list;
  va_start(list, flags);
  const auto mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : mode_t{};
  va_end(list);
  const bool bad = fails(path);
  if (bad && variable("DDP_DISK_FAULT") == "vanish") ::unlinkat(folder, path, 0);
  const int file = real(folder, path, flags, mode);
  failing_file = bad ? file : failing_file == file ? -1 : failing_file;
  return file;
}

extern "C" ssize_t pread(int file, void* to, size_t bytes, off_t offset) {
  static auto* const real = next<ssize_t(int, void*, size_t, off_t)>("pread");
  const std::string_view fault = variable("DDP_DISK_FAULT");
  if (file >= 0 && file == failing_file) {
    while (fault == "hang") ::pause();
    if (fault == "slow") ::usleep(100'000);
    errno = fault == "EIO" ? EIO : ESTALE;
    if (fault == "EIO" || (fault == "ESTALE" && reads++ == 0)) return -1;
  }
  return real(file, to, bytes, offset);
}
