#include "data/folder_scan.h"

#include "core/error.h"
#include "core/printable.h"
#include "data/picture_name.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

namespace ddp {
namespace {

// Each level of folders keeps a file open: this stays below the usual limit of 1,024.
constexpr int kMaxDepth = 256;

constexpr int64_t kEntriesOfProgress = 256;

struct CloseFolder {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

struct DirEntry {
  std::string name;
  unsigned char type;  // DT_...
};

unsigned char type_of(const struct stat& status) {
  return S_ISDIR(status.st_mode) ? DT_DIR : S_ISREG(status.st_mode) ? DT_REG : DT_FIFO;
}

std::string joined(std::string_view folder, std::string_view name) {
  return fmt::format("{}{}{}", folder, folder.empty() || name.empty() ? "" : "/", name);
}

}  // namespace

struct FolderScan::Node {
  Node(const FolderScan& owner, const Node* above, const std::string& name, std::string relative);
  [[noreturn]] void fail_at(std::string_view name, std::string_view why) const {
    fail(Exit::data, "{}: {}", scan.shown(joined(path, name)), why);
  }
  // The status of an entry; follows a link. Nothing if a link leads nowhere.
  std::optional<struct stat> status(const DirEntry& entry) const;
  // The entries in the order of their names. Links and unknown types are resolved, dot files left out. Entries that are
  // neither folders nor files have the type DT_FIFO, links that lead nowhere DT_UNKNOWN.
  std::vector<DirEntry> entries() const;

  const FolderScan& scan;
  const Node* parent;
  std::string path;
  int depth = 0;
  std::unique_ptr<DIR, CloseFolder> dir;
  dev_t device;
  ino_t inode;
};

struct FolderScan::Found {
  struct Place {
    size_t begin, size;  // in `text`
    int64_t bytes, mtime_ns;
  };
  struct Folder {
    std::string path;
    size_t begin, end;  // in `places`
  };
  std::string text;
  std::vector<Place> places;
  std::vector<Folder> folders;
  std::map<std::string_view, int64_t> unread;
  int64_t others = 0;
};

FolderScan::Node::Node(const FolderScan& owner, const Node* above, const std::string& name, std::string relative)
    : scan(owner), parent(above), path(std::move(relative)), depth(above == nullptr ? 0 : above->depth + 1) {
  if (depth > kMaxDepth) fail_at("", fmt::format("there are more than {} folders in each other", kMaxDepth));
  const int file = ::openat(above == nullptr ? AT_FDCWD : ::dirfd(above->dir.get()), name.c_str(),
                            O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
  if (file >= 0) dir.reset(::fdopendir(file));
  if (dir == nullptr) {
    const int error = errno;
    if (file >= 0) ::close(file);
    fail_at("", fmt::format("cannot read the folder: {}", errno_text(error)));
  }
  struct stat status;
  if (::fstat(file, &status) != 0) fail_at("", fmt::format("cannot read the folder: {}", std::strerror(errno)));
  device = status.st_dev;
  inode = status.st_ino;
  for (const Node* node = above; node != nullptr; node = node->parent)
    if (node->device == device && node->inode == inode)
      fail_at("", fmt::format("is a link to {}, a folder above it: a circle of links; remove the link",
                              owner.shown(node->path)));
}

std::optional<struct stat> FolderScan::Node::status(const DirEntry& entry) const {
  struct stat result;
  if (::fstatat(::dirfd(dir.get()), entry.name.c_str(), &result, 0) == 0) return result;
  if (errno == ENOENT && entry.type == DT_LNK) return std::nullopt;
  fail_at(entry.name, fmt::format("cannot read its size: {}", std::strerror(errno)));
}

std::vector<DirEntry> FolderScan::Node::entries() const {
  std::vector<DirEntry> result;
  ::rewinddir(dir.get());
  errno = 0;
  while (const dirent* entry = ::readdir(dir.get()))
    if (entry->d_name[0] != '.') result.push_back({entry->d_name, entry->d_type});
  if (errno != 0) fail_at("", fmt::format("cannot read the folder: {}", std::strerror(errno)));
  for (DirEntry& entry : result)
    if (entry.type == DT_LNK || entry.type == DT_UNKNOWN) {
      const std::optional<struct stat> found = status(entry);
      entry.type = found ? type_of(*found) : static_cast<unsigned char>(DT_UNKNOWN);
    } else if (entry.type != DT_DIR && entry.type != DT_REG) {
      entry.type = DT_FIFO;
    }
  std::ranges::sort(result, {}, &DirEntry::name);
  return result;
}

FolderScan::FolderScan(std::filesystem::path root, std::function<void()> progress)
    : root_(std::move(root)), progress_(std::move(progress)) {
  struct stat status;
  const bool found = ::stat(root_.c_str(), &status) == 0;
  require(found, Exit::data, "{}: {}; --data-path names the folder of the data", shown(""), std::strerror(errno));
  require(S_ISDIR(status.st_mode), Exit::data, "{}: is not a folder; --data-path names the folder of the data",
          shown(""));
}

std::string FolderScan::shown(std::string_view path) const {
  return printable(path.empty() ? root_.native() : (root_ / path).native());
}

FolderScan::Level FolderScan::level(const std::string& folder) const {
  Level level;
  for (DirEntry& entry : Node(*this, nullptr, root_ / folder, folder).entries())
    if (entry.type == DT_DIR)
      level.folders.push_back(std::move(entry.name));
    else if (!has_picture_name(entry.name))
      level.others.push_back(std::move(entry.name));
    else if (level.pictures++ == 0)
      level.picture = std::move(entry.name);
  return level;
}

void FolderScan::walk(const Node& folder, Found& found) const {
  std::vector<std::string> below;
  found.folders.push_back({folder.path, found.places.size(), 0});
  const size_t number = found.folders.size() - 1;
  int64_t count = 0;
  for (const DirEntry& entry : folder.entries()) {
    if (count++ % kEntriesOfProgress == 0) progress_();
    if (entry.type == DT_DIR) {
      below.push_back(entry.name);
    } else if (has_picture_name(entry.name)) {
      if (entry.type == DT_UNKNOWN) folder.fail_at(entry.name, "is a link that leads nowhere: remove or mend it");
      const auto status = entry.type == DT_REG ? folder.status(entry) : std::nullopt;
      if (!status || !S_ISREG(status->st_mode))
        folder.fail_at(entry.name, "is a FIFO, a socket or a device, not a picture: remove or rename it");
      const size_t begin = found.text.size();
      if (!folder.path.empty()) (found.text += folder.path) += '/';
      found.text += entry.name;
      if (root_.native().size() + 1 + found.text.size() - begin >= PATH_MAX)
        folder.fail_at(entry.name, fmt::format("its path has more than {} bytes", PATH_MAX - 1));
      found.places.push_back({begin, found.text.size() - begin, status->st_size,
                              int64_t{status->st_mtim.tv_sec} * 1'000'000'000 + status->st_mtim.tv_nsec});
    } else if (const std::string_view kind = unread_kind(entry.name); !kind.empty()) {
      ++found.unread[kind];
    } else {
      ++found.others;
    }
  }
  found.folders[number].end = found.places.size();
  for (const std::string& name : below) walk(Node(*this, &folder, name, joined(folder.path, name)), found);
}

const std::vector<FolderScan::Picture>& FolderScan::pictures(const std::string& folder) {
  Found found;
  // The folders above take part in the search for circles.
  std::vector<std::unique_ptr<Node>> above;
  above.push_back(std::make_unique<Node>(*this, nullptr, root_, ""));
  for (size_t begin = 0; begin < folder.size();) {
    const size_t end = std::min(folder.find('/', begin), folder.size());
    above.push_back(
        std::make_unique<Node>(*this, above.back().get(), folder.substr(begin, end - begin), folder.substr(0, end)));
    begin = end + 1;
  }
  walk(*above.back(), found);
  std::ranges::sort(found.folders, {}, &Found::Folder::path);
  text_ = std::move(found.text);
  pictures_.clear();
  pictures_.reserve(found.places.size());
  for (const Found::Folder& f : found.folders)
    for (size_t i = f.begin; i < f.end; ++i) {
      const Found::Place& place = found.places[i];
      pictures_.push_back({std::string_view(text_).substr(place.begin, place.size), place.bytes, place.mtime_ns});
    }
  for (const auto& [kind, count] : found.unread) unread_[kind] += count;
  others_ += found.others;
  return pictures_;
}

}  // namespace ddp
