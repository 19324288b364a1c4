// A flow of control with a stack of its own, on the thread that made it.
#pragma once

#include <ucontext.h>

#include <cstddef>

namespace emulator {

class Fiber {
 public:
  Fiber();                         // the flow that is running: the thread's own
  explicit Fiber(void (*body)());  // starts at the first switch to it; must never return
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Leaves the running fiber `from` and goes on in `to`; returns when somebody switches back.
  static void switch_to(Fiber& from, Fiber& to);

 private:
  static void enter();
  static void arrive(Fiber& fiber);

  void (*body_)() = nullptr;
  bool started_ = true;
  ucontext_t context_{};
  void* jump_[5];
  char* mapping_ = nullptr;
  void* stack_ = nullptr;  // for the sanitizers, as the next two
  size_t stack_bytes_ = 0;
  void* sanitizer_ = nullptr;
};

}  // namespace emulator
