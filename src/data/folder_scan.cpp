#include "data/folder_scan.h"

#include "core/error.h"
#include "core/printable.h"
#include "data/folder_node.h"
#include "data/picture_name.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <utility>

namespace ddp {
namespace {

constexpr int64_t kEntriesOfProgress = 256;

}  // namespace

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
  std::map<std::string, int64_t> left_out;
  int64_t others = 0;
};

FolderScan::FolderScan(std::filesystem::path root, std::function<void()> progress)
    : root_(std::move(root)), progress_(std::move(progress)) {
  struct stat status;
  const bool found = ::stat(root_.c_str(), &status) == 0;
  require(found, Exit::data, "{}: {}; --data-path names the folder of the data", shown(""), std::strerror(errno));
  require(S_ISDIR(status.st_mode), Exit::data, "{}: is not a folder; --data-path names the folder of the data",
          shown(""));
}

std::string FolderScan::shown(std::string_view path) const { return printable(full(path).native()); }

FolderScan::Level FolderScan::level(const std::string& folder) const {
  Level level;
  const FolderNode node(root_, nullptr, root_ / folder, folder);
  FolderNode::Entries entries = node.entries();
  for (DirEntry& entry : entries.shown)
    if (entry.type == DT_DIR) {
      const bool left_out = FolderNode(root_, &node, entry.name, node.below(entry.name)).has_only_hidden();
      (left_out ? level.left_out : level.folders).push_back(std::move(entry.name));
    } else if (!has_picture_name(entry.name)) {
      level.others.push_back(std::move(entry.name));
    } else if (level.pictures++ == 0) {
      level.picture = std::move(entry.name);
    }
  level.left_out.insert(level.left_out.end(), entries.system.begin(), entries.system.end());
  return level;
}

void FolderScan::walk(const FolderNode& folder, Found& found) const {
  std::vector<std::string> below;
  found.folders.push_back({folder.path, found.places.size(), 0});
  const size_t number = found.folders.size() - 1;
  int64_t count = 0;
  const FolderNode::Entries entries = folder.entries();
  for (const std::string& name : entries.system) ++found.left_out[name];
  for (const DirEntry& entry : entries.shown) {
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
  for (const std::string& name : below) walk(FolderNode(root_, &folder, name, folder.below(name)), found);
}

const std::vector<FolderScan::Picture>& FolderScan::pictures(const std::string& folder) {
  Found found;
  // The folders above take part in the search for circles.
  std::vector<std::unique_ptr<FolderNode>> above;
  above.push_back(std::make_unique<FolderNode>(root_, nullptr, root_, ""));
  for (size_t begin = 0; begin < folder.size();) {
    const size_t end = std::min(folder.find('/', begin), folder.size());
    above.push_back(std::make_unique<FolderNode>(root_, above.back().get(), folder.substr(begin, end - begin),
                                                 folder.substr(0, end)));
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
  for (const auto& [name, count] : found.left_out) left_out_[name] += count;
  others_ += found.others;
  return pictures_;
}

}  // namespace ddp
