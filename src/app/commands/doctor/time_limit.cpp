#include "app/commands/doctor/time_limit.h"

namespace ddp::doctor {

TimeLimit::TimeLimit(std::chrono::milliseconds limit, std::function<void()> beat, std::function<void()> expired)
    : thread_([this, limit, beat = std::move(beat), expired = std::move(expired)] {
        using Clock = std::chrono::steady_clock;
        constexpr std::chrono::milliseconds kBeat{100}, kSlept{2000};
        Clock::time_point last = Clock::now(), end = last + limit;
        std::unique_lock lock(mutex_);
        for (;;) {
          if (beat) beat();
          if (changed_.wait_for(lock, kBeat, [this] { return done_; })) return;
          const auto now = Clock::now();
          if (now - last > kBeat + kSlept) end += now - last;
          last = now;
          if (limit.count() > 0 && now >= end) break;
        }
        expired();
      }) {}

TimeLimit::~TimeLimit() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

}  // namespace ddp::doctor
