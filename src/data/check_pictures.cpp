#include "data/check_pictures.h"

#include "core/error.h"
#include "core/keyed_hash.h"
#include "core/printable.h"
#include "core/run_items.h"
#include "data/codec/picture.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <string_view>

namespace ddp {
namespace {

// Pictures that a thread takes at a time. Decoding the largest ones takes seconds each, and threads that wait for
// another one's piece tell no progress.
constexpr int64_t kHeadersOfAPiece = 256, kPicturesOfAPiece = 16;
// Most headers are shorter, and the EXIF block behind the pixels of a PNG is, as a rule, nearer to the end.
constexpr size_t kEndBytes = 16 << 10;
constexpr size_t kGrowth = 4;  // of the bytes that are read for a longer header

uint64_t content_hash(const std::vector<uint8_t>& bytes) {
  KeyedHash hash(0, Operation::picture_list);
  hash.add(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  return hash.value();
}

// Checks single pictures; one thread at a time.
class Checker {
 public:
  Checker(const PictureList& list, const FolderReader& files, CheckData how, bool exif, int64_t limit_bytes,
          bool unreadable_is_broken)
      : list_(list),
        files_(files),
        how_(how),
        exif_(exif),
        limit_(limit_bytes),
        unreadable_is_broken_(unreadable_is_broken),
        decoder_({.exif = exif}) {}

  void check(int64_t i) {
    CheckedPicture one{
        .id = static_cast<uint64_t>(i), .bytes = list_.bytes(i), .mtime_ns = list_.mtime_ns(i), .reason = {}};
    try {
      if (list_.bytes(i) > FolderReader::kMostBytes)
        throw PictureError(
            fmt::format("has {} bytes; a picture may have {}", list_.bytes(i), FolderReader::kMostBytes));
      require_memory(i, list_.bytes(i), "its file takes");
      const PictureHeader header = read(i);
      one.memory = decode_bytes(header) + list_.bytes(i);
      require_memory(i, one.memory, fmt::format("{} x {} pixels take", header.size.w, header.size.h));
      if (how_ == CheckData::full) one.content = decode(header);
      one.w = static_cast<int32_t>(header.size.w);
      one.h = static_cast<int32_t>(header.size.h);
      one.grey = header.channels == 1;
      one.animated = header.animated;
    } catch (const PictureError& e) {
      one.reason = e.what();
    } catch (const Error& e) {
      if (!unreadable_is_broken_ || e.code() != Exit::data) throw;
      facts.broken.emplace_back(i, e.what());  // not kept: it may be read another time
      return;
    }
    facts.add(one, how_ == CheckData::full);
    if (how_ == CheckData::full) facts.checked.push_back(std::move(one));
  }

  PictureFacts facts;

 private:
  // Not a broken picture: what a run trains on must not depend on the machine's memory or the number of workers.
  void require_memory(int64_t i, int64_t bytes, const std::string& what) const {
    require(bytes <= limit_, Exit::usage,
            "{}: {} {} MiB to decode, and a decoding thread may use {} MiB; give fewer --workers, or make the picture "
            "smaller",
            printable(files_.full(list_.path(i)).native()), what, bytes >> 20, limit_ >> 20);
  }

  // Reads only the two ends of a large file whose header is all that is asked for.
  PictureHeader read(int64_t i) {
    const FolderReader::Expected expected{.bytes = list_.bytes(i), .mtime_ns = list_.mtime_ns(i)};
    const auto file_bytes = static_cast<size_t>(list_.bytes(i));
    for (size_t bytes = kEndBytes; how_ == CheckData::headers && bytes < file_bytes; bytes *= kGrowth) {
      files_.read_part(list_.path(i), expected, 0, bytes, file_);
      try {
        const PictureHeader header = read_picture_head(file_, exif_);
        if (header.file_bytes > list_.bytes(i)) throw PictureError("the file is cut short");
        if (header.kind != PictureHeader::Kind::png) return header;
        files_.read_part(list_.path(i), expected, file_bytes - kEndBytes, kEndBytes, file_);
        if (ends_plainly(file_)) return header;
        break;
      } catch (const PictureCutShort&) {  // the header is longer
      }
    }
    files_.read(list_.path(i), expected, file_);
    return read_picture_header(file_, exif_);
  }

  uint64_t decode(const PictureHeader& header) {
    uint8_t pixel[3];  // the mean of the picture needs all of its data
    decoder_.decode(file_, header, {{0, 0, header.size.w, header.size.h}, {1, 1}, {0, 0, 1, 1}}, pixel);
    return content_hash(file_);
  }

  const PictureList& list_;
  const FolderReader& files_;
  const CheckData how_;
  const bool exif_;
  const int64_t limit_;
  const bool unreadable_is_broken_;
  PictureDecoder decoder_;
  std::vector<uint8_t> file_;
};

}  // namespace

PictureFacts check_pictures(const PictureList& list, const FolderReader& files, CheckData how, bool exif, int part,
                            int parts, int workers, int64_t limit_bytes, const std::function<void(int64_t)>& progress,
                            const CheckScope& scope) {
  DDP_EXPECT(0 <= part && part < parts && workers >= 1);
  const int64_t size = scope.only ? std::ssize(*scope.only) : list.size();
  const int64_t stride = (how == CheckData::full ? kPicturesOfAPiece : kHeadersOfAPiece) * parts,
                pieces = std::max<int64_t>(0, size - part + stride - 1) / stride;
  std::deque<Checker> checkers;  // one for each thread
  for (int thread = 0; thread < workers; ++thread)
    checkers.emplace_back(list, files, how, exif, limit_bytes, scope.unreadable_is_broken);
  std::atomic<int64_t> done{0};
  run_items(workers, pieces, [&](int thread, int64_t piece) {
    const int64_t first = part + piece * stride, end = std::min(first + stride, size);
    for (int64_t i = first; i < end; i += parts) {
      checkers[thread].check(scope.only ? (*scope.only)[i] : i);
      if (thread == 0 && progress) progress(done);
    }
    done += (end - first + parts - 1) / parts;
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
