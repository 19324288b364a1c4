// Files, folders and links that survive a crash of the machine. When a call has returned, its result is on the disk,
// except where the comment says otherwise. All functions throw Error(Exit::output) with the path and the OS error text.
//
// No function writes through a symbolic link or into a file that another program has made: a file is created under a
// name that was free, and a link at the path itself is replaced or refused. Links in the parent folders are followed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

// The number of a file or folder; all others at the same time have other numbers. None where there is nothing at the
// path.
struct FileId {
  uint64_t device = 0, number = 0;
  bool operator==(const FileId&) const = default;
};
std::optional<FileId> file_id(const std::filesystem::path& path);

// A name that no other process has: ".NAME.tmp-HOST-WORD" with a random word. remove_leftovers() knows such names.
std::string temporary_name(const std::string& name);

// Deletes `entries` of `folder`, which have been renamed. Flushes the folder first: else a power cut could leave the
// old name of an entry with a part of its files. Ignores errors.
void remove_renamed(const std::filesystem::path& folder, const std::vector<std::filesystem::path>& entries);

// Deletes the files and folders in `folder` with temporary names of any process, like remove_renamed(): the caller
// knows that no other process writes there.
void remove_leftovers(const std::filesystem::path& folder);

// Creates a file with this content. The path must be free. A crash may still lose the name of the file until
// flush_folder(folder of the file).
void write_durable_file(const std::filesystem::path& path, std::string_view content);

// A file that a command creates. It is never an existing file, and the path never a link. It has no name until it is
// kept: a command that ends before leaves nothing. Where the file system has no files without a name, such as NFS, it
// has its name at once, and the destructor removes it.
class NewFile {
 public:
  explicit NewFile(std::filesystem::path path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::string_view content);                     // appends
  void write_at(int64_t offset, std::string_view content);  // a few bytes, over what has been written

  // The contents are complete. All files get their names, or none does.
  static void keep(std::span<NewFile* const> files);

 private:
  const std::filesystem::path path_;
  int file_;
  bool named_ = false, kept_ = false;
};

// Replaces a file atomically: at any moment the path has the old content or the new. A link is replaced itself.
// Without `durable` it does not wait for the disk.
void replace_file(const std::filesystem::path& path, std::string_view content, bool durable = true);
// The content is that of `count` parts: part(0), part(1), ... Each part stays valid until the next call of `part`.
void replace_file(const std::filesystem::path& path, size_t count, const std::function<std::string_view(size_t)>& part,
                  bool durable = true);

// Throws where something other than a regular file is at the path, such as a link or a device, for files that a user
// names: the message asks for another `option`.
void require_replaceable(const std::filesystem::path& path, const char* option);

// Opens a file for appending and returns its descriptor, which the caller closes. Refuses what is not a regular file
// with one name, such as a link.
int open_for_appending(const std::filesystem::path& path);

// Creates a folder and its missing parent folders.
void create_durable_folders(const std::filesystem::path& folder);

// Throws where the path exists and is not a folder, or is a link to one.
void require_no_link(const std::filesystem::path& folder);

// Creates a folder in an existing one, unless it is there. Refuses a link.
void create_subfolder(const std::filesystem::path& folder);

// Flushes the names of the folder's entries.
void flush_folder(const std::filesystem::path& folder);

// Renames `from` to `to`; the old `to` is at `from` afterwards. If the file system can exchange names (all usual local
// ones can), `to` is a complete folder at every moment. Does not flush.
void replace_folder(const std::filesystem::path& from, const std::filesystem::path& to);

// Atomically makes `link` a symbolic link to `target`. `temporary`: an unused name in the folder of `link`. Does not
// flush the folder.
void replace_link(const std::filesystem::path& link, const std::filesystem::path& target,
                  const std::filesystem::path& temporary);

}  // namespace ddp
