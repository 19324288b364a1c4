// A library for LD_PRELOAD: logs in order what a program changes in a folder, what it flushes to the disk, and what it
// prints. disk.cpp reads the log. The environment says where:
//
//   DDP_WRITES_ROOT  the folder: an absolute path without links
//   DDP_WRITES_LOG   the log, outside of the folder
//
// A line has fields with tabs between them: the change, then the inode's number or the path. Bytes are in hexadecimal.
// Writes of C streams are not seen; the test compares the result with the real folder.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>

namespace {

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

bool is_inside(const std::string& path) {
  static const std::string root = variable("DDP_WRITES_ROOT");
  return !root.empty() && path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

std::string path_of_file(int file) {
  char path[4096];
  const ssize_t size = ::readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), path, sizeof path);
  return {path, static_cast<size_t>(size > 0 ? size : 0)};
}

std::string full_path(int folder, const char* path) {
  if (*path == '/') return std::filesystem::path(path).lexically_normal();
  const std::string from = folder == AT_FDCWD ? std::filesystem::current_path().string() : path_of_file(folder);
  return (std::filesystem::path(from) / path).lexically_normal();
}

std::string inode_of(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? std::to_string(status.st_ino) : "";
}

std::string hexadecimal(const void* data, size_t bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  const auto* const at = static_cast<const unsigned char*>(data);
  std::string text(2 * bytes, '0');
  for (size_t i = 0; i < bytes; ++i) {
    text[2 * i] = kDigits[at[i] >> 4];
    text[2 * i + 1] = kDigits[at[i] & 15];
  }
  return text;
}

// Held during a change and its line, so that the lines are in the order of the changes.
std::recursive_mutex& order() {
  static auto* const mutex = new std::recursive_mutex;  // threads may write until the process has ended
  return *mutex;
}

template <class... Fields>
void log(const char* change, const Fields&... fields) {
  static auto* const real_write = next<ssize_t(int, const void*, size_t)>("write");
  static auto* const real_open = next<int(const char*, int, ...)>("open");
  static const int file =
      real_open(variable("DDP_WRITES_LOG").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  std::string line = change;
  ((line += '\t', line += fields), ...);
  line += '\n';
  if (real_write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
}

// Calls `change`, and logs it if it succeeds and the path is in the folder.
template <class Change, class... Fields>
int change_name(const std::string& path, Change change, const char* name, const Fields&... fields) {
  if (!is_inside(path)) return change();
  const std::lock_guard lock(order());
  const int result = change();
  if (result == 0) log(name, fields...);
  return result;
}

int open_file(int folder, const char* path, int flags, mode_t mode) {
  static auto* const real = next<int(int, const char*, int, ...)>("openat");
  const std::string full = full_path(folder, path);
  if (!is_inside(full)) return real(folder, path, flags, mode);
  const std::lock_guard lock(order());
  const bool unnamed = (flags & O_TMPFILE) == O_TMPFILE, existed = !inode_of(full).empty();
  const int file = real(folder, path, flags, mode);
  struct stat status {};
  if (file < 0 || ::fstat(file, &status) != 0) return file;
  const std::string inode = std::to_string(status.st_ino);
  if (unnamed) log("unnamed", inode);
  if (!unnamed && !existed) log("file", inode, full);
  if (!unnamed && existed && (flags & O_TRUNC) != 0) log("truncate", inode, "0");
  return file;
}

// The file's inode if it is in the folder, else 0. `end`: where a write without an offset begins.
ino_t logged_file(int file, off_t& end) {
  struct stat status {};
  if (::fstat(file, &status) != 0 || !(S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))) return 0;
  if (!is_inside(path_of_file(file))) return 0;
  end = (::fcntl(file, F_GETFL) & O_APPEND) != 0 ? status.st_size : ::lseek(file, 0, SEEK_CUR);
  return status.st_ino;
}

template <class Write>
ssize_t write_at(int file, const void* data, off_t offset, Write write) {
  const std::lock_guard lock(order());
  off_t end = 0;
  const ino_t inode = logged_file(file, end);
  const ssize_t written = write();
  if (inode != 0 && written > 0)
    log("write", std::to_string(inode), std::to_string(offset < 0 ? end : offset),
        hexadecimal(data, static_cast<size_t>(written)));
  return written;
}

template <class Flush>
int flush(int file, Flush real) {
  const std::lock_guard lock(order());
  off_t end = 0;
  const ino_t inode = logged_file(file, end);
  const int result = real(file);
  if (inode != 0 && result == 0) log("flush", std::to_string(inode));
  return result;
}

mode_t mode_of(int flags, va_list list) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : mode_t{};
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open_file(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open_file(folder, path, flags, mode);
}

ssize_t write(int file, const void* data, size_t bytes) {
  static auto* const real = next<ssize_t(int, const void*, size_t)>("write");
  struct stat status {};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return real(file, data, bytes);  // it may block
  return write_at(file, data, -1, [&] { return real(file, data, bytes); });
}

ssize_t pwrite(int file, const void* data, size_t bytes, off_t offset) {
  static auto* const real = next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return write_at(file, data, offset, [&] { return real(file, data, bytes, offset); });
}

int ftruncate(int file, off_t bytes) noexcept {
  static auto* const real = next<int(int, off_t)>("ftruncate");
  const std::lock_guard lock(order());
  off_t end = 0;
  const ino_t inode = logged_file(file, end);
  const int result = real(file, bytes);
  if (inode != 0 && result == 0) log("truncate", std::to_string(inode), std::to_string(bytes));
  return result;
}

int fsync(int file) { return flush(file, next<int(int)>("fsync")); }

int fdatasync(int file) { return flush(file, next<int(int)>("fdatasync")); }

int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const real = next<int(const char*, mode_t)>("mkdir");
  const std::string full = full_path(AT_FDCWD, path);
  const std::lock_guard lock(order());
  const int result = real(path, mode);
  if (result == 0 && is_inside(full)) log("folder", inode_of(full), full);
  return result;
}

int symlink(const char* target, const char* path) noexcept {
  static auto* const real = next<int(const char*, const char*)>("symlink");
  const std::string full = full_path(AT_FDCWD, path);
  return change_name(
      full, [&] { return real(target, path); }, "symlink", full, target);
}

int linkat(int from_folder, const char* from, int folder, const char* path, int flags) noexcept {
  static auto* const real = next<int(int, const char*, int, const char*, int)>("linkat");
  const std::string full = full_path(folder, path);
  const std::lock_guard lock(order());
  const int result = real(from_folder, from, folder, path, flags);
  if (result == 0 && is_inside(full)) log("link", inode_of(full), full);
  return result;
}

int rename(const char* from, const char* to) noexcept {
  static auto* const real = next<int(const char*, const char*)>("rename");
  const std::string a = full_path(AT_FDCWD, from), b = full_path(AT_FDCWD, to);
  return change_name(
      b, [&] { return real(from, to); }, "rename", a, b);
}

int renameat2(int from_folder, const char* from, int folder, const char* to, unsigned flags) noexcept {
  static auto* const real = next<int(int, const char*, int, const char*, unsigned)>("renameat2");
  const std::string a = full_path(from_folder, from), b = full_path(folder, to);
  return change_name(
      b, [&] { return real(from_folder, from, folder, to, flags); },
      (flags & RENAME_EXCHANGE) != 0 ? "exchange" : "rename", a, b);
}

int unlink(const char* path) noexcept {
  static auto* const real = next<int(const char*)>("unlink");
  const std::string full = full_path(AT_FDCWD, path);
  return change_name(
      full, [&] { return real(path); }, "remove", full);
}

int rmdir(const char* path) noexcept {
  static auto* const real = next<int(const char*)>("rmdir");
  const std::string full = full_path(AT_FDCWD, path);
  return change_name(
      full, [&] { return real(path); }, "remove", full);
}

int remove(const char* path) noexcept {
  static auto* const real = next<int(const char*)>("remove");
  const std::string full = full_path(AT_FDCWD, path);
  return change_name(
      full, [&] { return real(path); }, "remove", full);
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  static auto* const real = next<int(int, const char*, int)>("unlinkat");
  const std::string full = full_path(folder, path);
  return change_name(
      full, [&] { return real(folder, path, flags); }, "remove", full);
}

size_t fwrite(const void* data, size_t size, size_t count, FILE* stream) {
  static auto* const real = next<size_t(const void*, size_t, size_t, FILE*)>("fwrite");
  if (stream == stdout && !variable("DDP_WRITES_LOG").empty()) {
    const std::lock_guard lock(order());
    log("print", hexadecimal(data, size * count));
  }
  return real(data, size, count, stream);
}

}  // extern "C"
