#include "comm/heartbeat/shared_slots.h"

#include "core/error.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <system_error>
#include <utility>

namespace ddp {
namespace {

constexpr const char* kName = "ddp_train heartbeats";

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

SharedSlots::SharedSlots(int count) : count_(count), bytes_(sizeof(Head) + count * sizeof(HeartbeatSlot)) {
  file_ = memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  shared_ = file_ >= 0 && ftruncate(file_, static_cast<off_t>(bytes_)) == 0 &&
            fcntl(file_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0 && map(file_);
  if (!shared_) make_private();
  std::random_device random;
  head()->mark = uint64_t{random()} << 32 | random();
}

SharedSlots::SharedSlots(const Key& key, int count)
    : count_(count), bytes_(sizeof(Head) + count * sizeof(HeartbeatSlot)) {
  if (key.file >= 0) {
    const int file = open_memory_of(key.pid, key.file, kName, O_RDWR);
    struct stat status {};
    const bool fits = file >= 0 && fstat(file, &status) == 0 && status.st_size == static_cast<off_t>(bytes_);
    shared_ = fits && map(file) && head()->mark == key.mark;
    if (file >= 0) close(file);
  }
  if (!shared_) make_private();
}

SharedSlots::~SharedSlots() {
  hide();
  munmap(memory_, bytes_);
}

bool SharedSlots::map(int file) {
  void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return false;
  memory_ = memory;
  return true;
}

void SharedSlots::make_private() {
  if (memory_) munmap(memory_, bytes_);
  memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory_ == MAP_FAILED) {
    memory_ = nullptr;
    throw std::bad_alloc();
  }
}

SharedSlots::Key SharedSlots::key() const { return {getpid(), shared_ ? file_ : -1, head()->mark}; }

void SharedSlots::hide() {
  if (file_ >= 0) close(std::exchange(file_, -1));
}

std::span<HeartbeatSlot> SharedSlots::slots() const {
  return {reinterpret_cast<HeartbeatSlot*>(head() + 1), static_cast<size_t>(count_)};
}

ProcessHandle::ProcessHandle(int pid) {
  if (pid > 0) file_ = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));  // always close-on-exec
}

ProcessHandle::~ProcessHandle() {
  if (file_ >= 0) close(file_);
}

ProcessHandle::ProcessHandle(ProcessHandle&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

ProcessHandle& ProcessHandle::operator=(ProcessHandle&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

bool ProcessHandle::ended() const {
  pollfd entry{file_, POLLIN, 0};
  return file_ >= 0 && poll(&entry, 1, 0) == 1;
}

}  // namespace ddp
