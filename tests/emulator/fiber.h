// A thread of control with its own stack. It runs on the host thread that switches to it.
#pragma once

#include <ucontext.h>

#include <cstddef>

namespace emulator {

class Fiber {
 public:
  Fiber();                         // the host thread's own flow, which is running
  explicit Fiber(void (*body)());  // body starts at the first switch to the fiber and must not return
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Suspends the running fiber `from` and resumes `to`. Returns when a fiber switches back to `from`.
  static void switch_to(Fiber& from, Fiber& to);

 private:
  static void enter();
  static void arrive(Fiber& fiber);

  void (*body_)() = nullptr;
  bool started_ = true;
  ucontext_t context_{};
  void* jump_[5];
  char* mapping_ = nullptr;
  void* stack_ = nullptr;  // this and the next two members are for the address sanitizer
  size_t stack_bytes_ = 0;
  void* sanitizer_ = nullptr;
};

}  // namespace emulator
