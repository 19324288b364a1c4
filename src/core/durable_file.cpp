#include "core/durable_file.h"

#include "core/error.h"
#include "core/host_name.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <system_error>
#include <utility>

namespace ddp {
namespace fs = std::filesystem;

namespace {

constexpr const char* kOtherFolder = "choose another --output-dir";
constexpr const char* kTemporary = ".tmp-";
constexpr std::string_view kAside = "-old";
constexpr const char* kOtherName = "choose another name";

class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags) : file_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    require(file_ >= 0, Exit::output, "cannot open {}: {}; {}", path.string(), errno_text(errno), kOtherFolder);
  }
  ~Descriptor() {
    if (file_ >= 0) ::close(file_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return file_; }
  int release() { return std::exchange(file_, -1); }

 private:
  int file_;
};

void move(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  require(!error, Exit::output, "cannot rename {} to {}: {}", from.string(), to.string(), error.message());
}

// `advice`: what else the user may do than make room.
void write_all(int file, const fs::path& path, std::string_view content, const char* advice) {
  while (!content.empty()) {
    const ssize_t written = ::write(file, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    require(written > 0, Exit::output, "cannot write {}: {}; make room or {}", path.string(), std::strerror(errno),
            advice);
    content.remove_prefix(static_cast<size_t>(written));
  }
}

void flush(int file, const fs::path& path, const char* advice) {
  require(::fsync(file) == 0, Exit::output, "cannot flush {} to the disk: {}; make room or {}", path.string(),
          std::strerror(errno), advice);
}

// Call it after open() or linkat().
void require_created(bool created, const fs::path& path) {
  const int error = errno;
  require(created, Exit::output, "cannot create {}: {}; {}", path.string(), errno_text(error),
          error == EEXIST ? "remove it, or choose another name" : kOtherName);
}

}  // namespace

std::optional<FileId> file_id(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return FileId{status.st_dev, status.st_ino};
}

std::string temporary_name(const std::string& name) {
  std::random_device random;
  return fmt::format(".{}{}{}-{:08x}{:08x}", name, kTemporary, host_name(), random(), random());
}

namespace {

// Whether the name is one of temporary_name(), or what replace_folder() has moved aside.
bool is_temporary(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  constexpr size_t kWord = 16;
  if (name.ends_with(kAside)) name.remove_suffix(kAside.size());
  if (!name.starts_with('.') || name.find(kTemporary) == name.npos || name.size() < kWord + 1) return false;
  const std::string_view word = name.substr(name.size() - kWord - 1);
  return word.front() == '-' && word.find_first_not_of(kDigits, 1) == word.npos;
}

}  // namespace

void remove_renamed(const fs::path& folder, const std::vector<fs::path>& entries) {
  if (entries.empty()) return;
  try {
    flush_folder(folder);  // before the files go
  } catch (const Error&) {
    return;
  }
  std::error_code ignored;
  for (const fs::path& entry : entries) fs::remove_all(entry, ignored);
}

void remove_leftovers(const fs::path& folder) {
  std::vector<fs::path> leftovers;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (is_temporary(entry->path().filename().native())) leftovers.push_back(entry->path());
  remove_renamed(folder, leftovers);
}

namespace {

using Part = std::function<std::string_view(size_t)>;

void create_file(const fs::path& path, size_t count, const Part& part, bool durable) {
  const Descriptor file(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
  for (size_t i = 0; i < count; ++i) write_all(file.get(), path, part(i), kOtherFolder);
  if (durable) flush(file.get(), path, kOtherFolder);
}

}  // namespace

void write_durable_file(const fs::path& path, std::string_view content) {
  create_file(
      path, 1, [&](size_t) { return content; }, true);
}

void replace_file(const fs::path& path, std::string_view content, bool durable) {
  replace_file(
      path, 1, [&](size_t) { return content; }, durable);
}

void replace_file(const fs::path& path, size_t count, const Part& part, bool durable) {
  const fs::path temporary = path.parent_path() / temporary_name(path.filename());
  try {
    create_file(temporary, count, part, durable);
    move(temporary, path);
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
  if (durable) flush_folder(path.parent_path().empty() ? fs::path(".") : path.parent_path());
}

void require_replaceable(const fs::path& path, const char* option) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  require(!fs::exists(status) || fs::is_regular_file(status), Exit::output,
          "{} is {}, and only files are replaced; give another {}", path.string(),
          fs::is_symlink(status) ? "a link" : "no file", option);
}

int open_for_appending(const fs::path& path) {
  Descriptor file(path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK);
  struct stat status {};
  require(::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1, Exit::output,
          "{} is not a regular file with one name; remove it", path.string());
  return file.release();
}

void require_no_link(const fs::path& folder) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(folder, error);
  require(!fs::exists(status) || fs::is_directory(status), Exit::output,
          "{} is {}, not a folder: nothing is written through it; remove it, or choose another --output-dir",
          folder.string(), fs::is_symlink(status) ? "a link" : "a file");
}

void create_subfolder(const fs::path& folder) {
  const bool created = ::mkdir(folder.c_str(), 0777) == 0;
  require(created || errno == EEXIST, Exit::output, "cannot create the folder {}: {}; choose another --output-dir",
          folder.string(), std::strerror(errno));
  require_no_link(folder);
  if (created) flush_folder(folder.parent_path());
}

void create_durable_folders(const fs::path& folder) {
  std::error_code error;
  if (fs::is_directory(folder, error)) return;
  const fs::path parent = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
  if (parent != folder) create_durable_folders(parent);
  fs::create_directory(folder, error);
  require(!error, Exit::output, "cannot create the folder {}: {}; choose another --output-dir", folder.string(),
          error.message());
  flush_folder(parent);
}

void flush_folder(const fs::path& folder) {
  const Descriptor file(folder, O_RDONLY | O_DIRECTORY);
  // EINVAL: this file system cannot flush folders.
  require(::fsync(file.get()) == 0 || errno == EINVAL, Exit::output, "cannot flush {} to the disk: {}", folder.string(),
          std::strerror(errno));
}

void replace_folder(const fs::path& from, const fs::path& to) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(to, error))) return move(from, to);
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return;
  const fs::path aside = from.string() + std::string(kAside);
  move(to, aside);
  try {
    move(from, to);
  } catch (const Error&) {
    move(aside, to);
    throw;
  }
  move(aside, from);
}

void replace_link(const fs::path& link, const fs::path& target, const fs::path& temporary) {
  std::error_code error;
  fs::create_symlink(target, temporary, error);
  require(!error, Exit::output, "cannot create the link {}: {}; choose another --output-dir", temporary.string(),
          error.message());
  try {
    move(temporary, link);
  } catch (const Error&) {
    fs::remove(temporary, error);
    throw;
  }
}

NewFile::NewFile(fs::path path) : path_(std::move(path)) {
  std::error_code ignored;
  const bool exists = fs::exists(fs::symlink_status(path_, ignored));
  const fs::path folder = path_.has_parent_path() ? path_.parent_path() : fs::path(".");
  file_ = exists ? -1 : ::open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0644);
  if (file_ >= 0) return;
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  named_ = file_ >= 0;
  require_created(named_, path_);
}

NewFile::~NewFile() {
  ::close(file_);
  if (named_ && !kept_) ::unlink(path_.c_str());
}

void NewFile::write(std::string_view content) { write_all(file_, path_, content, kOtherName); }

void NewFile::write_at(int64_t offset, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::pwrite(file_, content.data(), content.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    require(written > 0, Exit::output, "cannot write {}: {}; make room or {}", path_.string(), std::strerror(errno),
            kOtherName);
    content.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
}

void NewFile::keep(std::span<NewFile* const> files) {
  for (const NewFile* file : files) flush(file->file_, file->path_, kOtherName);
  for (NewFile* file : files) {
    if (file->named_) continue;
    const std::string unnamed = fmt::format("/proc/self/fd/{}", file->file_);
    file->named_ = ::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, file->path_.c_str(), AT_SYMLINK_FOLLOW) == 0;
    require_created(file->named_, file->path_);
  }
  for (const NewFile* file : files)
    flush_folder(file->path_.has_parent_path() ? file->path_.parent_path() : fs::path("."));
  for (NewFile* file : files) file->kept_ = true;
}

}  // namespace ddp
