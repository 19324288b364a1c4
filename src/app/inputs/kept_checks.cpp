#include "app/inputs/kept_checks.h"

#include "app/inputs/check_all_pictures.h"
#include "core/durable_file.h"
#include "core/error.h"
#include "core/read_file.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

namespace ddp {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostBytes = int64_t{1} << 30;  // of a file
constexpr int64_t kPicturesOfAMessage = 65'536;   // of all ranks together

KeptCheck read(const fs::path& file, bool exif) {
  try {
    return KeptCheck::from_file(read_whole_file(file, kMostBytes), exif);
  } catch (const Error&) {
    return {};
  }
}

bool is_same(const CheckedPicture* found, const PictureList& list, int64_t i) {
  return found && found->bytes == list.bytes(i) && found->mtime_ns == list.mtime_ns(i);
}

}  // namespace

KeptChecks read_kept_checks(const fs::path& data, const fs::path& run_folder, bool exif) {
  return {.of_data = read(data / kKeptCheckOfData, exif),
          .of_run = run_folder.empty() ? KeptCheck() : read(run_folder / kKeptCheck, exif)};
}

KeptPart share_kept(KeptChecks& kept, const PictureList& list, int64_t limit, MpiSession& session) {
  KeptPart part;
  std::vector<CheckedPicture> earlier;  // of other sizes; their ids are positions
  std::string known(session.rank() == 0 ? static_cast<size_t>(list.size() + 7) / 8 : 0, '\0');
  for (int64_t i = 0; session.rank() == 0 && i < list.size(); ++i) {
    const CheckedPicture* const before = kept.of_run.find(list.path(i));
    const CheckedPicture* found = kept.of_data.find(list.path(i));
    if (!is_same(found, list, i)) found = is_same(before, list, i) ? before : nullptr;
    if (found && found->memory <= limit) {
      known[static_cast<size_t>(i / 8)] |= static_cast<char>(1 << i % 8);
      kept.current.push_back(*found);
      CheckedPicture here = *found;
      here.id = static_cast<uint64_t>(i);
      part.facts.add(here, true);
    }
    if (before && before->bytes != list.bytes(i))
      earlier.push_back({.id = static_cast<uint64_t>(i), .bytes = before->bytes});
  }
  std::ranges::sort(part.facts.content);
  const std::string bits = session.gather(known).front();
  for (int64_t i = 0; i < list.size(); ++i)
    if ((bits[static_cast<size_t>(i / 8)] >> i % 8 & 1) == 0) part.unknown.push_back(i);
  for (const CheckedPicture& one : unpack_checked(session.gather(pack_checked(earlier)).front()))
    part.earlier_sizes.emplace(static_cast<int64_t>(one.id), one.bytes);
  return part;
}

void add_checked(KeptChecks& kept, const PictureList& list, std::vector<CheckedPicture> mine, MpiSession& session) {
  int64_t most = 0;
  for (const std::string& size : session.gather(fmt::format("{}", mine.size())))
    most = std::max<int64_t>(most, std::stoll(size));
  const int64_t piece = std::max<int64_t>(1, kPicturesOfAMessage / session.size());
  for (int64_t first = 0; first < most; first += piece) {
    const int64_t begin = std::min(first, std::ssize(mine)), end = std::min(first + piece, std::ssize(mine));
    for (const std::string& bytes : session.gather(pack_checked(std::span(mine).subspan(begin, end - begin)))) {
      if (session.rank() != 0) continue;
      for (CheckedPicture& one : unpack_checked(bytes)) {
        one.id = path_hash(list.path(static_cast<int64_t>(one.id)));
        kept.current.push_back(std::move(one));
      }
    }
  }
}

std::string keep(const KeptChecks& kept, const fs::path& data, bool changed, bool exif) {
  std::vector<CheckedPicture> all = kept.of_data.pictures();
  all.insert(all.end(), kept.current.begin(), kept.current.end());
  if (changed || kept.of_data.empty()) {
    try {
      replace_file(data / kKeptCheckOfData, KeptCheck(std::move(all)).file(exif), false);
    } catch (const Error&) {  // the run's folder has the result too
    }
  }
  std::vector<CheckedPicture> of_run = kept.current;
  of_run.insert(of_run.end(), kept.of_run.pictures().begin(), kept.of_run.pictures().end());
  return KeptCheck(std::move(of_run)).file(exif);
}

}  // namespace ddp
