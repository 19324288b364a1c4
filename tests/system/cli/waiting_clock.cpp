// A library for LD_PRELOAD: the steady clock of the main thread, which trains, passes only while this thread waits. So
// computing takes no time, and a machine that takes the processors away changes no time that a run tells.
//
// A sleep of a millisecond or longer takes exactly its time, and returns at once; other waits take none. With
// DDP_CLOCK=waits all waits take their real time. Other threads have the real clock.
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kSleep = std::chrono::milliseconds(1);

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

nanoseconds of(const timespec& time) { return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec); }

nanoseconds real_time() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return of(now);
}

const pthread_t main_thread = ::pthread_self();  // it loads this library
const char* const wanted = std::getenv("DDP_CLOCK");
const bool waits_take_time = wanted != nullptr && std::strcmp(wanted, "waits") == 0;
nanoseconds main_time = real_time();

bool in_main_thread() { return ::pthread_equal(::pthread_self(), main_thread) != 0; }

template <class Wait>
int timed(Wait wait) {
  if (!waits_take_time || !in_main_thread()) return wait();
  const nanoseconds begin = real_time();
  const int result = wait();
  main_time += real_time() - begin;
  return result;
}

}  // namespace

std::chrono::steady_clock::time_point std::chrono::steady_clock::now() noexcept {
  return time_point(in_main_thread() ? main_time : real_time());
}

extern "C" int nanosleep(const timespec* time, timespec* left) {
  static auto* const real = next<int(const timespec*, timespec*)>("nanosleep");
  if (!waits_take_time && in_main_thread() && of(*time) >= kSleep) {
    main_time += of(*time);
    return 0;
  }
  return timed([&] { return real(time, left); });
}

extern "C" int sched_yield() {
  static auto* const real = next<int()>("sched_yield");
  return timed([] { return real(); });
}

extern "C" int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  static auto* const real = next<int(pthread_cond_t*, pthread_mutex_t*)>("pthread_cond_wait");
  return timed([&] { return real(condition, mutex); });
}

extern "C" int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                      const timespec* until) {
  static auto* const real =
      next<int(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*)>("pthread_cond_clockwait");
  timespec end = *until;
  if (in_main_thread() && clock == CLOCK_MONOTONIC) {
    const nanoseconds time = of(*until) + (real_time() - main_time);
    end = {.tv_sec = time / std::chrono::seconds(1), .tv_nsec = (time % std::chrono::seconds(1)).count()};
  }
  return timed([&] { return real(condition, mutex, clock, &end); });
}
