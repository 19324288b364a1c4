#include "app/inputs/check_all_pictures.h"

#include "app/inputs/kept_checks.h"
#include "core/control_group.h"
#include "core/stopwatch.h"
#include "data/folder_reader.h"
#include "health/run_on_all_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace ddp {
namespace {

constexpr double kProgressSeconds = 5;
constexpr size_t kMostReasons = 10'000;  // that all ranks tell together

class Check {
 public:
  Check(const DataConfig& config, int workers, MpiSession& session, const Log& log, const Reading& reading)
      : config_(config), workers_(workers), session_(session), log_(log), reading_(reading) {}

  bool full() const { return config_.check == CheckData::full; }
  int64_t limit() const { return memory_limit() / session_.local_size() / workers_; }

  // The facts of this rank's part of the list. Rank 0 has those of the kept pictures too.
  PictureFacts mine(const PictureList& list, const KeptPart& kept) const {
    return run_on_all_ranks(session_, [&] {
      const std::vector<int64_t>* const only = full() ? &kept.unknown : nullptr;
      const int64_t size = only ? std::ssize(*only) : list.size();
      reading_.progress();
      Stopwatch watch;
      const auto progress = [&](int64_t done) {
        reading_.progress();
        if (watch.seconds() < kProgressSeconds) return;
        watch = {};
        log_.info("checked {} of {} pictures", std::min(done * session_.size(), size), size);
      };
      PictureFacts facts = check_pictures(list, FolderReader(config_.path), config_.check, config_.input.exif,
                                          session_.rank(), session_.size(), workers_, limit(), progress,
                                          {.only = only, .unreadable_is_broken = config_.skip_broken});
      facts.merge(kept.facts);
      reading_.done();
      return facts;
    });
  }

  PictureFacts of_all(const PictureFacts& mine, size_t shown) const {
    PictureFacts all;
    for (const std::string& bytes : session_.gather(mine.pack(std::max(shown, kMostReasons / session_.size()))))
      all.merge(PictureFacts::unpack(bytes));
    return all;
  }

 private:
  const DataConfig& config_;
  const int workers_;
  MpiSession& session_;
  const Log& log_;
  const Reading& reading_;
};

// Each rank compares its training pictures with all validation pictures.
void find_leaks(const PictureFacts& train, const PictureFacts& val, size_t shown, MpiSession& session,
                CheckedPictures& checked) {
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
}

}  // namespace

CheckedPictures check_all_pictures(const PictureLists& lists, const DataConfig& config,
                                   const std::filesystem::path& run_folder, int workers, size_t shown,
                                   MpiSession& session, const Log& log, const Reading& reading) {
  const Check check(config, workers, session, log, reading);
  KeptChecks kept;
  if (check.full() && session.rank() == 0) kept = read_kept_checks(config.path, run_folder, config.input.exif);
  KeptPart kept_train, kept_val;
  if (check.full()) {
    kept_train = share_kept(kept, lists.train, check.limit(), session);
    kept_val = share_kept(kept, lists.val, check.limit(), session);
  }
  PictureFacts train = check.mine(lists.train, kept_train), val = check.mine(lists.val, kept_val);
  CheckedPictures checked{.train = check.of_all(train, shown), .val = check.of_all(val, shown)};
  if (!check.full()) return checked;
  find_leaks(train, val, shown, session, checked);
  checked.train_sizes = std::move(kept_train.earlier_sizes);
  checked.val_sizes = std::move(kept_val.earlier_sizes);
  checked.decoded = std::ssize(kept_train.unknown) + std::ssize(kept_val.unknown);
  add_checked(kept, lists.train, std::move(train.checked), session);
  add_checked(kept, lists.val, std::move(val.checked), session);
  if (session.rank() == 0) checked.kept = keep(kept, config.path, checked.decoded > 0, config.input.exif);
  return checked;
}

}  // namespace ddp
