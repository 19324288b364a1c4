// An open folder below the root of the data, and its entries. Errors are Error(Exit::data) with the path.
#pragma once

#include <dirent.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

struct DirEntry {
  std::string name;
  unsigned char type;  // DT_DIR, DT_REG, DT_UNKNOWN: a link that leads nowhere, DT_FIFO: anything else
};

struct FolderNode {
  // Opens `name`, a path, or the name of a folder in `above`. `relative`: its path below the root. Throws for a folder
  // that cannot be read, for a link to a folder above it, and below 256 folders. `root` and `above` outlive it.
  FolderNode(const std::filesystem::path& root, const FolderNode* above, const std::string& name, std::string relative);

  struct Entries {
    std::vector<DirEntry> shown;      // neither hidden nor of systems (data/known_names.h); in the order of their names
    std::vector<std::string> system;  // folders of systems
  };
  Entries entries() const;  // follows links
  // Whether all entries are hidden or of systems, at any depth. Not so an empty folder.
  bool has_only_hidden() const;

  // The status of an entry; follows a link. Nothing if a link leads nowhere.
  std::optional<struct stat> status(const DirEntry& entry) const;
  [[noreturn]] void fail_at(std::string_view name, std::string_view why) const;

  std::string below(std::string_view name) const;  // path of an entry from the root on

  const std::filesystem::path& root;
  const FolderNode* const parent;
  const std::string path;
  const int depth;

 private:
  struct Close {
    void operator()(DIR* dir) const { ::closedir(dir); }
  };
  void resolve(DirEntry& entry) const;
  template <class Use>
  void each_entry(Use use) const;

  std::unique_ptr<DIR, Close> dir_;
  dev_t device_;
  ino_t inode_;
};

}  // namespace ddp
