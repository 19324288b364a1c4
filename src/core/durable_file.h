// Files, folders and links that survive a crash of the machine. When a call has returned, its result is on the disk,
// except where the comment says otherwise. All functions throw Error(Exit::output) with the path and the OS error text.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

namespace ddp {

// Writes the content of a file. A crash may still lose the name of the file until flush_folder(folder of the file).
void write_durable_file(const std::filesystem::path& path, std::string_view content);

// A file that a command creates. It is never an existing file, and the path never a link. It has no name until it is
// kept: a command that ends before leaves nothing. Where the file system knows no files without a name, such as NFS, it
// has its name at once, and the destructor removes it.
class NewFile {
 public:
  explicit NewFile(std::filesystem::path path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::string_view content);  // appends

  // The contents are complete. All files get their names, or none does.
  static void keep(std::span<NewFile* const> files);

 private:
  const std::filesystem::path path_;
  int file_;
  bool named_ = false, kept_ = false;
};

// Replaces the content of a file atomically: at any moment the path has the old content or the new.
void replace_file(const std::filesystem::path& path, std::string_view content);

// Creates a folder and its missing parent folders.
void create_durable_folders(const std::filesystem::path& folder);

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
