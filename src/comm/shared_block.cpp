#include "comm/shared_block.h"

#include "comm/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

namespace ddp {
namespace {

constexpr const char* kBlockName = "ddp_train data";

bool write_all(int file, std::span<const std::byte> content) {
  while (!content.empty()) {
    const ssize_t count = write(file, content.data(), content.size());
    if (count <= 0) return false;
    content = content.subspan(static_cast<size_t>(count));
  }
  return true;
}

}  // namespace

SharedBlock::SharedBlock(std::span<const std::byte> content)
    : file_(memfd_create(kBlockName, MFD_CLOEXEC | MFD_ALLOW_SEALING)), size_(content.size()) {
  if (file_ < 0) return;
  const bool sealed = write_all(file_, content) &&
                      fcntl(file_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0;
  if (sealed) return;
  close(file_);
  file_ = -1;
}

SharedBlock::~SharedBlock() {
  if (file_ >= 0) close(file_);
}

std::string SharedBlock::key() const {
  struct stat status {};
  if (file_ < 0 || fstat(file_, &status) != 0) return "";
  return fmt::format("{} {} {} {}", getpid(), file_, size_, uint64_t{status.st_ino});
}

SharedBlock::Mapped SharedBlock::map(const std::string& key) {
  int pid = 0, number = 0;
  size_t size = 0;
  unsigned long long inode = 0;
  if (std::sscanf(key.c_str(), "%d %d %zu %llu", &pid, &number, &size, &inode) != 4 || size == 0) return {};
  const int file = open_memory_of(pid, number, kBlockName, O_RDONLY);
  if (file < 0) return {};
  struct stat status {};
  const int seals = fcntl(file, F_GET_SEALS);
  const bool fits = fstat(file, &status) == 0 && status.st_ino == inode && (seals & F_SEAL_WRITE) != 0 &&
                    status.st_size == static_cast<off_t>(size);
  void* const memory = fits ? mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
  close(file);
  if (memory == MAP_FAILED) return {};
  return {std::shared_ptr<const std::byte[]>(
              static_cast<const std::byte*>(memory),
              [size](const std::byte* bytes) { munmap(const_cast<std::byte*>(bytes), size); }),
          size};
}

}  // namespace ddp
