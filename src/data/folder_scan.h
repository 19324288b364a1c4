// Lists the pictures below a folder in the order of torchvision's ImageFolder: the folders by their path, the files of
// a folder by their name, both byte by byte. (Its code: for root, _, names in sorted(os.walk(folder,
// followlinks=True)), then sorted(names).) Unlike there, hidden files and folders of systems are passed over
// (data/known_names.h).
//
// Links are followed. A file takes one fstatat call, for its size and time. Errors are Error(Exit::data) with the path:
// a folder that cannot be read, a link that leads nowhere or to a folder above it, a FIFO, socket or device with the
// name of a picture, which is not opened.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

struct FolderNode;

class FolderScan {
 public:
  // All paths below are relative to the root; "" is the root. Calls `progress` from time to time. Throws if `root` is
  // no folder.
  explicit FolderScan(
      std::filesystem::path root, std::function<void()> progress = [] {});
  FolderScan(const FolderScan&) = delete;
  FolderScan& operator=(const FolderScan&) = delete;

  // The entries of one folder, not of those in it.
  struct Level {
    std::vector<std::string> folders;   // names, sorted
    std::vector<std::string> left_out;  // folders of systems, and folders that hold hidden files only
    int64_t pictures = 0;
    std::string picture;              // the name of the first one
    std::vector<std::string> others;  // names of other files that are not hidden, sorted
  };
  Level level(const std::string& folder) const;

  struct Picture {
    std::string_view path;
    int64_t bytes = 0, mtime_ns = 0;
  };
  // All pictures below the folder, .jpg .jpeg .png .webp in any case. They are valid until the next call.
  const std::vector<Picture>& pictures(const std::string& folder);

  // What pictures() has met and passed over.
  const std::map<std::string_view, int64_t>& unread() const { return unread_; }  // pictures of other kinds: ".heic"
  const std::map<std::string, int64_t>& left_out() const { return left_out_; }   // folders of systems
  int64_t others() const { return others_; }                                     // other files

  std::filesystem::path full(std::string_view path) const { return path.empty() ? root_ : root_ / path; }
  std::string shown(std::string_view path) const;  // the same, for a message
  void progress() const { progress_(); }

 private:
  struct Found;  // what the walk below a folder has found
  void walk(const FolderNode& folder, Found& found) const;

  const std::filesystem::path root_;
  const std::function<void()> progress_;
  std::string text_;  // the paths of pictures_
  std::vector<Picture> pictures_;
  std::map<std::string_view, int64_t> unread_;
  std::map<std::string, int64_t> left_out_;
  int64_t others_ = 0;
};

}  // namespace ddp
