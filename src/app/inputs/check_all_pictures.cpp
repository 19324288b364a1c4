#include "app/inputs/check_all_pictures.h"

#include "core/control_group.h"
#include "core/stopwatch.h"
#include "data/folder_reader.h"
#include "health/run_on_all_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace ddp {
namespace {

constexpr double kProgressSeconds = 5;
constexpr size_t kMostReasons = 10'000;  // that all ranks tell together

PictureFacts check_mine(const PictureList& list, const DataConfig& config, int workers, MpiSession& session,
                        const Log& log, const Reading& reading) {
  return run_on_all_ranks(session, [&] {
    reading.progress();
    Stopwatch watch;
    const auto progress = [&](int64_t done) {
      reading.progress();
      if (watch.seconds() < kProgressSeconds) return;
      watch = {};
      log.info("checked {} of {} pictures", std::min(done * session.size(), list.size()), list.size());
    };
    PictureFacts facts =
        check_pictures(list, FolderReader(config.path), config.check, config.input.exif, session.rank(), session.size(),
                       workers, memory_limit() / session.local_size() / workers, progress);
    reading.done();
    return facts;
  });
}

PictureFacts facts_of_all(const PictureFacts& mine, size_t shown, MpiSession& session) {
  PictureFacts all;
  for (const std::string& bytes : session.gather(mine.pack(std::max(shown, kMostReasons / session.size()))))
    all.merge(PictureFacts::unpack(bytes));
  return all;
}

}  // namespace

CheckedPictures check_all_pictures(const PictureLists& lists, const DataConfig& config, int workers, size_t shown,
                                   MpiSession& session, const Log& log, const Reading& reading) {
  const PictureFacts train = check_mine(lists.train, config, workers, session, log, reading),
                     val = check_mine(lists.val, config, workers, session, log, reading);
  CheckedPictures checked{.train = facts_of_all(train, shown, session), .val = facts_of_all(val, shown, session)};
  if (config.check != CheckData::full) return checked;

  // Each rank compares its training pictures with all validation pictures.
  PictureFacts all_val;
  for (const std::string& bytes : session.gather(pack_pairs(val.content)))
    all_val.merge({.content = unpack_pairs(bytes)});
  PictureFacts::Pairs leaking = equal_content(train.content, all_val.content);
  for (const std::string& count : session.gather(fmt::format("{}", leaking.size()))) checked.leaks += std::stoll(count);
  leaking.resize(std::min(leaking.size(), shown));
  for (const std::string& bytes : session.gather(pack_pairs(leaking)))
    for (const auto& pair : unpack_pairs(bytes)) checked.leaking.push_back(pair);
  std::ranges::sort(checked.leaking);
  checked.leaking.resize(std::min(checked.leaking.size(), shown));
  return checked;
}

}  // namespace ddp
