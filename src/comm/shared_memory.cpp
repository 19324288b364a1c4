#include "comm/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

namespace ddp {
namespace {

// A file above the limit of ulimit -f would end this process by SIGXFSZ.
bool may_have(size_t bytes) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

}  // namespace

int open_memory_of(int pid, int file, const char* name, int flags) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, file);
  std::error_code error;
  if (std::filesystem::read_symlink(path, error) != fmt::format("/memfd:{} (deleted)", name)) return -1;
  const int opened = open(path.c_str(), flags | O_CLOEXEC);
  if (opened < 0) return -1;
  const int seals = fcntl(opened, F_GET_SEALS);  // -1: no such memory
  if (seals >= 0 && (seals & F_SEAL_SHRINK) != 0) return opened;
  close(opened);
  return -1;
}

SharedMemory::SharedMemory(const char* name, size_t bytes) : bytes_(bytes) {
  if (!may_have(bytes)) return;
  const int file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return;
  struct stat status {};
  const bool made = ftruncate(file, static_cast<off_t>(bytes)) == 0 &&
                    fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0 &&
                    fstat(file, &status) == 0 && map(file);
  if (made)
    key_ = {getpid(), file, uint64_t{status.st_ino}};
  else
    close(file);
}

SharedMemory::SharedMemory(const char* name, const Key& key, size_t bytes) : bytes_(bytes) {
  if (key.file < 0) return;
  const int file = open_memory_of(key.pid, key.file, name, O_RDWR);
  if (file < 0) return;
  struct stat status {};
  if (fstat(file, &status) == 0 && status.st_size == static_cast<off_t>(bytes) && status.st_ino == key.inode) map(file);
  close(file);
}

SharedMemory::~SharedMemory() {
  hide();
  if (data_) munmap(data_, bytes_);
}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  SharedMemory(std::move(other)).swap(*this);
  return *this;
}

void SharedMemory::swap(SharedMemory& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(key_, other.key_);
}

void SharedMemory::hide() {
  if (key_.file >= 0) close(std::exchange(key_.file, -1));
}

bool SharedMemory::map(int file) {
  void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return false;
  data_ = static_cast<std::byte*>(memory);
  return true;
}

}  // namespace ddp
