// Files, folders and links that a crash of the machine does not take back: once a call has returned, its work is on the
// disk. All throw Error(Exit::output) with the path and the system's reason.
#pragma once

#include <filesystem>
#include <string_view>

namespace ddp {

// Its name may still be lost, until flush_folder.
void write_durable_file(const std::filesystem::path& path, std::string_view content);

// At any moment the path has the old content or the new.
void replace_file(const std::filesystem::path& path, std::string_view content);

// With the folders above it, where they are missing.
void create_durable_folders(const std::filesystem::path& folder);

// The names in it.
void flush_folder(const std::filesystem::path& folder);

// Renames `from` to `to`. What was at `to` is at `from` afterwards; where the file system can exchange names, as all
// usual local ones can, there is something whole at `to` at every moment. Not flushed.
void replace_folder(const std::filesystem::path& from, const std::filesystem::path& to);

// `link` points to `target`, before or after; `temporary` is a free name in its folder. Not flushed.
void replace_link(const std::filesystem::path& link, const std::filesystem::path& target,
                  const std::filesystem::path& temporary);

}  // namespace ddp
