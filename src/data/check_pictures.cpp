#include "data/check_pictures.h"

#include "core/error.h"
#include "core/keyed_hash.h"
#include "core/printable.h"
#include "core/run_items.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <string_view>

namespace ddp {
namespace {

constexpr int64_t kPicturesOfAPiece = 256;  // pictures that a thread takes at a time
constexpr size_t kHeaderBytes = 16 << 10;   // most headers are shorter

uint64_t content_hash(const std::vector<uint8_t>& bytes) {
  KeyedHash hash(0, Operation::picture_list);
  hash.add(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  return hash.value();
}

// Checks single pictures; one thread at a time.
class Checker {
 public:
  Checker(const PictureList& list, const FolderReader& files, CheckData how, bool exif, int64_t limit_bytes)
      : list_(list), files_(files), how_(how), exif_(exif), limit_(limit_bytes), decoder_({.exif = exif}) {}

  void check(int64_t i) {
    try {
      const PictureHeader header = read(i);
      const int64_t bytes = decode_bytes(header) + list_.bytes(i);
      require(
          bytes <= limit_, Exit::usage,
          "{}: {} x {} pixels take {} MiB to decode, and a decoding thread may use {} MiB; give fewer --workers, or "
          "make the picture smaller",
          printable(files_.full(list_.path(i)).native()), header.size.w, header.size.h, bytes >> 20, limit_ >> 20);
      if (how_ == CheckData::full) decode(i, header);
      add(header);
    } catch (const PictureError& e) {
      facts.broken.emplace_back(i, e.what());
    }
  }

  PictureFacts facts;

 private:
  // Reads the head of the file, and all of it where the header is longer.
  PictureHeader read(int64_t i) {
    if (list_.bytes(i) > FolderReader::kMostBytes)
      throw PictureError(fmt::format("has {} bytes; a picture may have {}", list_.bytes(i), FolderReader::kMostBytes));
    const FolderReader::Expected expected{.bytes = list_.bytes(i), .mtime_ns = list_.mtime_ns(i)};
    if (how_ == CheckData::headers && list_.bytes(i) > static_cast<int64_t>(kHeaderBytes)) {
      files_.read_head(list_.path(i), expected, kHeaderBytes, file_);
      try {
        return read_picture_header(file_, exif_);
      } catch (const PictureError&) {  // the whole file decides
      }
    }
    files_.read(list_.path(i), expected, file_);
    return read_picture_header(file_, exif_);
  }

  void decode(int64_t i, const PictureHeader& header) {
    uint8_t pixel[3];  // the mean of the picture needs all of its data
    decoder_.decode(file_, header, {{0, 0, header.size.w, header.size.h}, {1, 1}, {0, 0, 1, 1}}, pixel);
    facts.content.emplace_back(content_hash(file_), i);
  }

  void add(const PictureHeader& header) {
    PictureFacts one;
    one.pictures = 1;
    one.grey = header.channels == 1;
    one.smallest = one.largest = header.size;
    facts.merge(one);
  }

  const PictureList& list_;
  const FolderReader& files_;
  const CheckData how_;
  const bool exif_;
  const int64_t limit_;
  PictureDecoder decoder_;
  std::vector<uint8_t> file_;
};

template <class T>
void append_sorted(std::vector<T>& to, const std::vector<T>& from) {
  const auto middle = to.insert(to.end(), from.begin(), from.end());
  std::inplace_merge(to.begin(), middle, to.end());
}

}  // namespace

void PictureFacts::merge(const PictureFacts& other) {
  pictures += other.pictures;
  grey += other.grey;
  smallest = {std::min(smallest.w, other.smallest.w), std::min(smallest.h, other.smallest.h)};
  largest = {std::max(largest.w, other.largest.w), std::max(largest.h, other.largest.h)};
  append_sorted(broken, other.broken);
  append_sorted(content, other.content);
}

PictureFacts check_pictures(const PictureList& list, const FolderReader& files, CheckData how, bool exif, int part,
                            int parts, int workers, int64_t limit_bytes, const std::function<void(int64_t)>& progress) {
  DDP_EXPECT(0 <= part && part < parts && workers >= 1);
  const int64_t stride = kPicturesOfAPiece * parts,
                pieces = std::max<int64_t>(0, list.size() - part + stride - 1) / stride;
  std::deque<Checker> checkers;  // one for each thread
  for (int thread = 0; thread < workers; ++thread) checkers.emplace_back(list, files, how, exif, limit_bytes);
  std::atomic<int64_t> done{0};
  run_items(workers, pieces, [&](int thread, int64_t piece) {
    const int64_t first = part + piece * stride, end = std::min(first + stride, list.size());
    for (int64_t i = first; i < end; i += parts) checkers[thread].check(i);
    done += (end - first + parts - 1) / parts;
    if (thread == 0 && progress) progress(done);
  });
  PictureFacts all;
  for (Checker& checker : checkers) {
    std::ranges::sort(checker.facts.broken);
    std::ranges::sort(checker.facts.content);
    all.merge(checker.facts);
  }
  return all;
}

}  // namespace ddp
