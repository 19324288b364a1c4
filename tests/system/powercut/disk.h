// A disk that is built from a log of log_writes.cpp, and the states in which a power cut may leave it.
//
// As POSIX says: the bytes of a file are safe after a flush of the file, and its name after a flush of its folder. Any
// other change may be on the disk or not, in any order. One call changes names all at once or not at all; bytes may
// also be there in part, or be zeros.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddp::testing {

// By path in the folder. The content is that of the file or the target of the link; the disk owns it.
struct Entry {
  enum class Kind { file, folder, link } kind;
  const std::string* content;
  bool operator==(const Entry&) const = default;
};
using Tree = std::map<std::string, Entry>;

std::string bytes_of(std::string_view hexadecimal);  // of a field of the log

class Disk {
 public:
  Disk(std::string root, const std::string& inode);  // an empty folder

  // One line of the log, without its end. Throws std::runtime_error for a line that does not fit the disk.
  void apply(std::string_view line);

  Tree tree() const;  // without a power cut
  void for_each_tree_after_a_cut(const std::function<void(const Tree&)>& call) const;

 private:
  using Names = std::map<int, std::map<std::string, int>>;  // of the entries of each folder
  enum Fate { kept, lost, half, zeros };                    // of the changes of a file that were not flushed

  struct NameChange {
    int folder;
    std::vector<std::pair<std::string, int>> entries;  // 0: none
  };
  struct ByteChange {
    size_t begin;
    std::string bytes;
    bool truncates;
  };
  struct Object {
    Entry::Kind kind;
    const std::string* content;  // on the disk
    std::vector<ByteChange> changes = {};
    bool unnamed = false;  // it may get a name later
  };

  int add(const std::string& inode, Entry::Kind kind, std::string content = "");
  std::pair<int, std::string> place(std::string_view path) const;  // the folder, and the name in it
  int at(std::string_view path) const;
  void set(std::string_view path, int object) { set({{path, object}}); }
  void set(std::vector<std::pair<std::string_view, int>> entries);
  void flush(int object);
  void forget_unreachable();

  Names names_with(const std::vector<bool>& changes) const;
  std::vector<std::vector<bool>> name_choices() const;
  const std::string* content_of(int file, Fate fate) const;
  Tree tree(const Names& names, const std::function<const std::string*(int file)>& content) const;
  const std::string* intern(std::string content) const { return &*contents_.insert(std::move(content)).first; }

  const std::string root_;
  std::vector<Object> objects_;
  std::map<std::string, int> by_inode_;  // the newest object of each
  Names names_;                          // on the disk
  std::vector<NameChange> changes_;      // of names, not flushed
  mutable std::set<std::string> contents_;
};

}  // namespace ddp::testing
