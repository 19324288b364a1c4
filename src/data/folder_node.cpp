#include "data/folder_node.h"

#include "core/error.h"
#include "core/printable.h"
#include "data/known_names.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace ddp {
namespace {

namespace fs = std::filesystem;

// Each level of folders keeps a file open: this stays below the usual limit of 1,024.
constexpr int kMaxDepth = 256;

unsigned char type_of(const struct stat& status) {
  return S_ISDIR(status.st_mode) ? DT_DIR : S_ISREG(status.st_mode) ? DT_REG : DT_FIFO;
}

std::string shown(const fs::path& root, const std::string& path) {
  return printable(path.empty() ? root.native() : (root / path).native());
}

}  // namespace

FolderNode::FolderNode(const fs::path& from, const FolderNode* above, const std::string& name, std::string relative)
    : root(from), parent(above), path(std::move(relative)), depth(above == nullptr ? 0 : above->depth + 1) {
  if (depth > kMaxDepth) fail_at("", fmt::format("there are more than {} folders in each other", kMaxDepth));
  const int file = ::openat(above == nullptr ? AT_FDCWD : ::dirfd(above->dir_.get()), name.c_str(),
                            O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
  if (file >= 0) dir_.reset(::fdopendir(file));
  if (dir_ == nullptr) {
    const int error = errno;
    if (file >= 0) ::close(file);
    fail_at("", fmt::format("cannot read the folder: {}", errno_text(error)));
  }
  struct stat status;
  if (::fstat(file, &status) != 0) fail_at("", fmt::format("cannot read the folder: {}", std::strerror(errno)));
  device_ = status.st_dev;
  inode_ = status.st_ino;
  for (const FolderNode* node = above; node != nullptr; node = node->parent)
    if (node->device_ == device_ && node->inode_ == inode_)
      fail_at("", fmt::format("is a link to {}, a folder above it: a circle of links; remove the link",
                              shown(root, node->path)));
}

std::string FolderNode::below(std::string_view name) const {
  return fmt::format("{}{}{}", path, path.empty() || name.empty() ? "" : "/", name);
}

void FolderNode::fail_at(std::string_view name, std::string_view why) const {
  fail(Exit::data, "{}: {}", shown(root, below(name)), why);
}

std::optional<struct stat> FolderNode::status(const DirEntry& entry) const {
  struct stat result;
  if (::fstatat(::dirfd(dir_.get()), entry.name.c_str(), &result, 0) == 0) return result;
  if (errno == ENOENT && entry.type == DT_LNK) return std::nullopt;
  fail_at(entry.name, fmt::format("cannot read its size: {}", std::strerror(errno)));
}

void FolderNode::resolve(DirEntry& entry) const {
  if (entry.type == DT_LNK || entry.type == DT_UNKNOWN) {
    const std::optional<struct stat> found = status(entry);
    entry.type = found ? type_of(*found) : static_cast<unsigned char>(DT_UNKNOWN);
  } else if (entry.type != DT_DIR && entry.type != DT_REG) {
    entry.type = DT_FIFO;
  }
}

// Gives each entry to `use`, which returns whether it wants another one.
template <class Use>
void FolderNode::each_entry(Use use) const {
  ::rewinddir(dir_.get());
  errno = 0;
  while (const dirent* entry = ::readdir(dir_.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && !use(DirEntry{entry->d_name, entry->d_type})) return;
    errno = 0;
  }
  if (errno != 0) fail_at("", fmt::format("cannot read the folder: {}", std::strerror(errno)));
}

FolderNode::Entries FolderNode::entries() const {
  Entries result;
  each_entry([&](DirEntry entry) {
    const bool system = is_system_folder(entry.name);
    if (is_hidden(entry.name) && !system) return true;
    resolve(entry);
    if (system && entry.type == DT_DIR)
      result.system.push_back(std::move(entry.name));
    else if (!is_hidden(entry.name))
      result.shown.push_back(std::move(entry));
    return true;
  });
  std::ranges::sort(result.shown, {}, &DirEntry::name);
  std::ranges::sort(result.system);
  return result;
}

bool FolderNode::has_only_hidden() const {
  bool any = false, only = true;
  std::vector<std::string> folders;
  each_entry([&](DirEntry entry) {
    any = true;
    if (is_hidden(entry.name)) return true;
    resolve(entry);
    only = entry.type == DT_DIR;
    if (only && !is_system_folder(entry.name)) folders.push_back(std::move(entry.name));
    return only;
  });
  return any && only && std::ranges::all_of(folders, [&](const std::string& name) {
           return FolderNode(root, this, name, below(name)).has_only_hidden();
         });
}

}  // namespace ddp
