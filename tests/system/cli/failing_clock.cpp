// A library for LD_PRELOAD: somebody sets the wall clock. One second after the start of the process it goes back by an
// hour, and one second later it goes forward by two hours.
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

namespace {

timespec real(clockid_t clock) {
  using Function = int(clockid_t, timespec*);
  static auto* const function = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, "clock_gettime"));
  timespec now{};
  function(clock, &now);
  return now;
}

const timespec started = real(CLOCK_MONOTONIC);

timespec wall() {
  const timespec steady = real(CLOCK_MONOTONIC);
  const auto seconds = static_cast<double>(steady.tv_sec - started.tv_sec) +
                       1e-9 * static_cast<double>(steady.tv_nsec - started.tv_nsec);
  timespec now = real(CLOCK_REALTIME);
  now.tv_sec += seconds < 1 ? 0 : seconds < 2 ? -3600 : 3600;
  return now;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* to) {
  *to = clock == CLOCK_REALTIME ? wall() : real(clock);
  return 0;
}

extern "C" time_t time(time_t* to) {
  const time_t now = wall().tv_sec;
  if (to != nullptr) *to = now;
  return now;
}

extern "C" int gettimeofday(timeval* to, void*) {
  const timespec now = wall();
  *to = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return 0;
}
