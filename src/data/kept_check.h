// What the full check has found about single pictures, as bytes for a file: a picture of the same path, size and time
// of change need not be decoded again.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

struct CheckedPicture {
  uint64_t id = 0;  // hash of its path; between ranks its position in the list
  int64_t bytes = 0, mtime_ns = 0;
  int64_t memory = 0;    // bytes that decoding takes, its file included
  uint64_t content = 0;  // hash of its file
  int32_t w = 0, h = 0;  // upright
  bool grey = false, animated = false;
  std::string reason = {};  // why it cannot be read; empty: it can
  friend bool operator==(const CheckedPicture&, const CheckedPicture&) = default;
};

uint64_t path_hash(std::string_view path);

// Pictures as bytes, and the reverse for the bytes of a process of the same program.
std::string pack_checked(std::span<const CheckedPicture> pictures);
std::vector<CheckedPicture> unpack_checked(std::string_view bytes);

// Pictures by path.
class KeptCheck {
 public:
  KeptCheck() = default;
  explicit KeptCheck(std::vector<CheckedPicture> pictures);  // the last of equal ids counts

  const CheckedPicture* find(std::string_view path) const;  // null: not known
  bool empty() const { return pictures_.empty(); }
  const std::vector<CheckedPicture>& pictures() const { return pictures_; }

  // The content of the file. `exif` as in the check: it turns pictures.
  std::string file(bool exif) const;
  // Nothing if the content is not whole or not possible, is of another version of the program, or of a check with
  // another `exif`.
  static KeptCheck from_file(std::string_view content, bool exif);

 private:
  std::vector<CheckedPicture> pictures_;  // by id, ascending
};

}  // namespace ddp
