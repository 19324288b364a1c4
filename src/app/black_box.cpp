#include "app/black_box.h"

#include "core/log.h"

namespace ddp {

BlackBox::BlackBox(MpiSession& session, Signals& signals, const Progress& progress)
    : session_(session), signals_(signals), progress_(progress) {
  session_.before_end([this] { write(); });
  signals_.on_dump([this] { write(); });
}

BlackBox::~BlackBox() {
  signals_.on_dump({});
  session_.before_end({});
}

void BlackBox::set_run_folder(const std::filesystem::path& folder) {
  const std::lock_guard lock(mutex_);
  folder_ = folder;
}

void BlackBox::write() {
  const std::lock_guard lock(mutex_);
  if (folder_.empty()) return;
  const std::string problem = progress_.write(folder_ / "flight" / fmt::format("rank-{}.json", session_.rank()));
  if (!problem.empty()) Log(session_.rank()).warn("{}", problem);
}

}  // namespace ddp
