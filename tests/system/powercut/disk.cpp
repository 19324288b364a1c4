#include "tests/system/powercut/disk.h"

#include <algorithm>
#include <stdexcept>

namespace ddp::testing {
namespace {

constexpr size_t kFewChanges = 6;  // all their subsets are tried
constexpr int kRoot = 1;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

size_t number(std::string_view text) { return std::stoull(std::string(text)); }

}  // namespace

std::string bytes_of(std::string_view hexadecimal) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes(hexadecimal.size() / 2, '\0');
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(digit(hexadecimal[2 * i]) << 4 | digit(hexadecimal[2 * i + 1]));
  return bytes;
}

Disk::Disk(std::string root, const std::string& inode)
    : root_(std::move(root)), objects_(kRoot, {Entry::Kind::file, nullptr}) {
  add(inode, Entry::Kind::folder);
}

int Disk::add(const std::string& inode, Entry::Kind kind, std::string content) {
  const int object = static_cast<int>(objects_.size());
  objects_.push_back({kind, intern(std::move(content))});
  if (kind == Entry::Kind::folder) names_[object];
  if (!inode.empty()) by_inode_[inode] = object;
  return object;
}

std::pair<int, std::string> Disk::place(std::string_view path) const {
  if (!path.starts_with(root_ + "/")) throw std::runtime_error("outside of the folder: " + std::string(path));
  const Names names = names_with(std::vector<bool>(changes_.size(), true));
  const auto parts = split(path.substr(root_.size() + 1), '/');
  int folder = kRoot;
  for (size_t i = 0; i + 1 < parts.size(); ++i) folder = names.at(folder).at(std::string(parts[i]));
  return {folder, std::string(parts.back())};
}

int Disk::at(std::string_view path) const {
  const auto [folder, name] = place(path);
  return names_with(std::vector<bool>(changes_.size(), true)).at(folder).at(name);
}

// All entries are of one folder.
void Disk::set(std::vector<std::pair<std::string_view, int>> entries) {
  NameChange change{.folder = place(entries.front().first).first, .entries = {}};
  for (const auto& [path, object] : entries) {
    const auto [folder, name] = place(path);
    if (folder != change.folder) throw std::runtime_error("a rename between folders: " + std::string(path));
    change.entries.emplace_back(name, object);
  }
  changes_.push_back(std::move(change));
}

void Disk::apply(std::string_view line) {
  const auto fields = split(line, '\t');
  const std::string_view change = fields.at(0), first = fields.at(1);
  const std::string inode(first);
  if (change == "file") return set(fields.at(2), add(inode, Entry::Kind::file));
  if (change == "folder") return set(fields.at(2), add(inode, Entry::Kind::folder));
  if (change == "symlink") return set(first, add("", Entry::Kind::link, std::string(fields.at(2))));
  if (change == "link") return set(fields.at(2), by_inode_.at(inode));
  if (change == "remove") return set(first, 0);
  if (change == "rename") return set({{first, 0}, {fields.at(2), at(first)}});
  if (change == "exchange") return set({{first, at(fields.at(2))}, {fields.at(2), at(first)}});
  if (change == "flush") return flush(by_inode_.at(inode));
  if (change == "unnamed") {
    objects_[add(inode, Entry::Kind::file)].unnamed = true;
  } else if (change == "write") {
    objects_[by_inode_.at(inode)].changes.push_back({number(fields.at(2)), bytes_of(fields.at(3)), false});
  } else if (change == "truncate") {
    objects_[by_inode_.at(inode)].changes.push_back({number(fields.at(2)), "", true});
  } else if (change != "print") {
    throw std::runtime_error("an unknown change: " + std::string(line));
  }
}

void Disk::flush(int object) {
  objects_[object].content = content_of(object, kept);
  objects_[object].changes.clear();
  std::vector<bool> flushed;
  for (const NameChange& change : changes_) flushed.push_back(change.folder == object);
  names_ = names_with(flushed);
  std::erase_if(changes_, [&](const NameChange& change) { return change.folder == object; });
  forget_unreachable();
}

// Forgets the changes of what no power cut can bring back, since their number decides how many subsets there are.
void Disk::forget_unreachable() {
  for (bool found = true; found;) {
    std::set<int> named = {kRoot};
    for (const auto& [folder, entries] : names_)
      for (const auto& [name, object] : entries) named.insert(object);
    for (const NameChange& change : changes_)
      for (const auto& [name, object] : change.entries) named.insert(object);
    found = std::erase_if(names_, [&](const auto& entry) { return !named.contains(entry.first); }) > 0;
    std::erase_if(changes_, [&](const NameChange& change) { return !named.contains(change.folder); });
    for (size_t i = 0; i < objects_.size(); ++i)
      if (!named.contains(static_cast<int>(i)) && !objects_[i].unnamed) objects_[i].changes.clear();
  }
}

Disk::Names Disk::names_with(const std::vector<bool>& changes) const {
  Names names = names_;
  for (size_t i = 0; i < changes_.size(); ++i) {
    if (!changes[i]) continue;
    for (const auto& [name, object] : changes_[i].entries) {
      if (object == 0)
        names[changes_[i].folder].erase(name);
      else
        names[changes_[i].folder][name] = object;
    }
  }
  return names;
}

// All subsets of a few changes. Of more: none, all, each alone, all but each, and the first ones of each number.
std::vector<std::vector<bool>> Disk::name_choices() const {
  const size_t n = changes_.size();
  std::vector<std::vector<bool>> choices;
  const auto choose = [&](auto&& is_kept) {
    auto& choice = choices.emplace_back();
    for (size_t i = 0; i < n; ++i) choice.push_back(is_kept(i));
  };
  if (n <= kFewChanges) {
    for (size_t subset = 0; subset < size_t{1} << n; ++subset) choose([&](size_t i) { return (subset >> i & 1) != 0; });
    return choices;
  }
  for (size_t k = 0; k < n; ++k) {
    choose([&](size_t i) { return i == k; });
    choose([&](size_t i) { return i != k; });
    choose([&](size_t i) { return i < k; });
  }
  choose([](size_t) { return true; });
  return choices;
}

const std::string* Disk::content_of(int file, Fate fate) const {
  if (fate == lost || objects_[file].changes.empty()) return objects_[file].content;
  std::string content = *objects_[file].content;
  for (const ByteChange& change : objects_[file].changes) {
    const size_t bytes = fate == half ? change.bytes.size() / 2 : change.bytes.size();
    if (change.truncates || content.size() < change.begin + bytes) content.resize(change.begin + bytes);
    if (fate == zeros)
      std::fill_n(content.begin() + static_cast<std::ptrdiff_t>(change.begin), bytes, '\0');
    else
      content.replace(change.begin, bytes, change.bytes, 0, bytes);
  }
  return intern(std::move(content));
}

Tree Disk::tree(const Names& names, const std::function<const std::string*(int file)>& content) const {
  Tree tree;
  const auto add_entries = [&](auto&& self, int folder, const std::string& path) -> void {
    for (const auto& [name, object] : names.at(folder)) {
      tree.emplace(path + name, Entry{objects_[object].kind, content(object)});
      if (objects_[object].kind == Entry::Kind::folder) self(self, object, path + name + "/");
    }
  };
  add_entries(add_entries, kRoot, "");
  return tree;
}

Tree Disk::tree() const {
  return tree(names_with(std::vector<bool>(changes_.size(), true)), [&](int file) { return content_of(file, kept); });
}

void Disk::for_each_tree_after_a_cut(const std::function<void(const Tree&)>& call) const {
  std::map<std::pair<int, Fate>, const std::string*> contents;
  for (int file = kRoot; std::cmp_less(file, objects_.size()); ++file)
    for (const Fate fate : {kept, lost, half, zeros}) contents[{file, fate}] = content_of(file, fate);
  for (const auto& choice : name_choices()) {
    const Names names = names_with(choice);
    for (const Fate fate : {kept, lost, half, zeros})
      call(tree(names, [&](int file) { return contents[{file, fate}]; }));
    if (std::ranges::find(choice, false) != choice.end()) continue;
    for (int alone = kRoot; std::cmp_less(alone, objects_.size()); ++alone) {
      if (objects_[alone].changes.empty()) continue;
      for (const auto& [its, others] : {std::pair(kept, lost), std::pair(lost, kept)})
        call(tree(names, [&](int file) { return contents[{file, file == alone ? its : others}]; }));
    }
  }
}

}  // namespace ddp::testing
