#include "data/picture_list.h"

#include "core/error.h"
#include "core/keyed_hash.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace ddp {

// The block: a header, the files, the ends of the class names, the texts. The texts are the paths and then the class
// names, each with a zero byte behind it. A text begins where the one before it ends.
struct PictureList::File {
  uint64_t path_end;  // in the texts, behind the zero byte
  int64_t bytes, mtime_ns;
  int32_t label;
  uint32_t unused;  // 0
};

namespace {

struct BlockHeader {
  uint64_t kind, block_bytes, files, classes, text_bytes;
};
constexpr uint64_t kBlockKind = 0x3174'7369'6C70'6464;  // "ddplist1"
constexpr uint64_t kMaxFiles = std::numeric_limits<int32_t>::max();

// A relative path that stays below the root. No file system has longer paths than 4095 bytes.
bool is_inside(std::string_view path) {
  if (path.empty() || path.front() == '/' || path.size() > 4095) return false;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (path.substr(begin, end - begin) == "..") return false;
    begin = end + 1;
  }
  return true;
}

bool has_zero(std::string_view text) { return text.find('\0') != text.npos; }

}  // namespace

// Needs a block whose header fits its size.
PictureList::PictureList(std::shared_ptr<const void> owner, std::span<const std::byte> block)
    : owner_(std::move(owner)), block_(block) {
  BlockHeader header;
  std::memcpy(&header, block.data(), sizeof header);
  files_ = static_cast<int64_t>(header.files);
  classes_ = static_cast<int64_t>(header.classes);
  file_ = reinterpret_cast<const File*>(block.data() + sizeof header);
  class_end_ = reinterpret_cast<const uint64_t*>(file_ + files_);
  texts_ = reinterpret_cast<const char*>(class_end_ + classes_);
}

// Returns what is wrong, or nothing. Needs no more than the constructor.
std::string_view PictureList::check() const {
  BlockHeader header;
  std::memcpy(&header, block_.data(), sizeof header);
  uint64_t begin = 0;
  const auto take = [&](uint64_t end) {  // empty: no valid text
    if (end <= begin || end > header.text_bytes || texts_[end - 1] != '\0') return std::string_view();
    const std::string_view result = text(std::exchange(begin, end), end);
    return has_zero(result) ? std::string_view() : result;
  };
  for (int64_t i = 0; i < files_; ++i) {
    const File& f = file_[i];
    if (!is_inside(take(f.path_end))) return "a path is not valid";
    if (f.label < 0 || f.label >= classes_) return "a label is not of a class";
    if (f.bytes < 0 || f.unused != 0) return "a file's size is not valid";
  }
  std::vector<std::string_view> names;
  for (int64_t i = 0; i < classes_; ++i) {
    names.push_back(take(class_end_[i]));
    if (names.back().empty()) return "the name of a class is not valid";
  }
  std::sort(names.begin(), names.end());
  if (std::adjacent_find(names.begin(), names.end()) != names.end()) return "two classes have one name";
  return begin == header.text_bytes ? "" : "it has more texts than files and classes";
}

PictureList PictureList::from_block(std::shared_ptr<const void> owner, std::span<const std::byte> block) {
  const auto require_valid = [](bool holds, std::string_view why) {
    require(holds, Exit::internal, "the shared list of pictures is broken: {}", why);
  };
  BlockHeader header;
  require_valid(block.size() >= sizeof header, "it is shorter than its header");
  require_valid(reinterpret_cast<uintptr_t>(block.data()) % alignof(File) == 0, "its address is odd");
  std::memcpy(&header, block.data(), sizeof header);
  require_valid(header.kind == kBlockKind, "it is something else");
  require_valid(
      header.files <= kMaxFiles && header.classes <= kMaxFiles && header.text_bytes <= block.size() &&
          header.block_bytes == block.size() &&
          sizeof header + header.files * sizeof(File) + header.classes * sizeof(uint64_t) + header.text_bytes ==
              block.size(),
      "its parts do not fill it");
  PictureList list(std::move(owner), block);
  const std::string_view why = list.check();
  require_valid(why.empty(), why);
  return list;
}

std::string_view PictureList::text(uint64_t begin, uint64_t end) const { return {texts_ + begin, end - begin - 1}; }

const PictureList::File& PictureList::file(int64_t i) const {
  DDP_EXPECT(i >= 0 && i < files_);
  return file_[i];
}

std::string_view PictureList::path(int64_t i) const {
  const uint64_t end = file(i).path_end;
  return text(i == 0 ? 0 : file_[i - 1].path_end, end);
}
int32_t PictureList::label(int64_t i) const { return file(i).label; }
int64_t PictureList::bytes(int64_t i) const { return file(i).bytes; }
int64_t PictureList::mtime_ns(int64_t i) const { return file(i).mtime_ns; }

std::string_view PictureList::class_name(int i) const {
  DDP_EXPECT(i >= 0 && i < classes_);
  return text(i > 0 ? class_end_[i - 1] : files_ > 0 ? file_[files_ - 1].path_end : 0, class_end_[i]);
}

uint64_t PictureList::hash(const std::map<int64_t, int64_t>& earlier) const {
  KeyedHash hash(0, Operation::picture_list);
  hash.add(static_cast<uint64_t>(files_));
  hash.add(static_cast<uint64_t>(classes_));
  for (int i = 0; i < classes_; ++i) hash.add(class_name(i));
  for (int64_t i = 0; i < files_; ++i) {
    hash.add(path(i));
    const auto size = earlier.find(i);
    hash.add(static_cast<uint64_t>(size == earlier.end() ? bytes(i) : size->second));
    hash.add(static_cast<uint64_t>(label(i)));
  }
  return hash.value();
}

PictureListBuilder::PictureListBuilder(std::vector<std::string> class_names) : class_names_(std::move(class_names)) {}
PictureListBuilder::~PictureListBuilder() = default;

void PictureListBuilder::add(std::string_view path, int32_t label, int64_t bytes, int64_t mtime_ns) {
  DDP_EXPECT(is_inside(path) && !has_zero(path) && bytes >= 0);
  DDP_EXPECT(label >= 0 && label < static_cast<int64_t>(class_names_.size()));
  require(files_.size() < kMaxFiles, Exit::data, "there are more than {} pictures, which is too many", kMaxFiles);
  texts_ += path;
  texts_ += '\0';
  files_.push_back({.path_end = texts_.size(), .bytes = bytes, .mtime_ns = mtime_ns, .label = label, .unused = 0});
}

PictureList PictureListBuilder::finish() && {
  std::vector<uint64_t> class_end;
  for (const std::string& name : class_names_) {
    DDP_EXPECT(!name.empty() && !has_zero(name));
    texts_ += name;
    texts_ += '\0';
    class_end.push_back(texts_.size());
  }
  BlockHeader header{.kind = kBlockKind,
                     .block_bytes = 0,
                     .files = files_.size(),
                     .classes = class_end.size(),
                     .text_bytes = texts_.size()};
  const size_t file_bytes = files_.size() * sizeof(PictureList::File), end_bytes = class_end.size() * sizeof(uint64_t);
  header.block_bytes = sizeof header + file_bytes + end_bytes + texts_.size();
  const std::shared_ptr<std::byte[]> block(new std::byte[header.block_bytes]);  // aligned for every type
  std::byte* to = block.get();
  const auto put = [&](const void* from, size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    to += bytes;
  };
  put(&header, sizeof header);
  put(files_.data(), file_bytes);
  put(class_end.data(), end_bytes);
  put(texts_.data(), texts_.size());
  return {block, {block.get(), header.block_bytes}};
}

}  // namespace ddp
