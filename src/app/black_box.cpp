#include "app/black_box.h"

#include "app/fatal.h"
#include "core/log.h"

#include <csignal>

namespace ddp {

BlackBox::BlackBox(MpiSession& session, Signals& signals, const PhaseTracker& phases)
    : session_(session), signals_(signals), phases_(phases) {
  session_.before_end([this](const std::string& why) {
    {
      const std::lock_guard lock(mutex_);
      error_ = why;
    }
    write();
  });
  signals_.on_dump([this](int signal) {
    if (signal == SIGUSR2 || job_has_failed(session_)) write();
  });
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
  const std::string problem = phases_.write(folder_ / "flight" / fmt::format("rank-{}.json", session_.rank()), error_);
  if (!problem.empty()) Log(session_.rank()).warn("{}", problem);
}

}  // namespace ddp
