#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace emulator {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr size_t kStackBytes = 256 << 10;
#else
constexpr size_t kStackBytes = 64 << 10;
#endif

thread_local Fiber* entering = nullptr;
[[maybe_unused]] thread_local Fiber* left = nullptr;

// The compiler requires that setjmp and longjmp are in different functions.
[[noreturn, gnu::noinline, gnu::no_sanitize_address]] void resume(void** jump) { __builtin_longjmp(jump, 1); }

}  // namespace

Fiber::Fiber() = default;

// The page below the stack is not accessible, so a stack overflow faults.
Fiber::Fiber(void (*body)()) : body_(body), started_(false), stack_bytes_(kStackBytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* mapping = mmap(nullptr, page + kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED || mprotect(mapping, page, PROT_NONE) != 0 || getcontext(&context_) != 0) {
    std::perror("emulator: a fiber's stack");
    std::abort();
  }
  mapping_ = static_cast<char*>(mapping);
  stack_ = mapping_ + page;
  context_.uc_stack.ss_sp = stack_;
  context_.uc_stack.ss_size = kStackBytes;
  context_.uc_link = nullptr;
  makecontext(&context_, &Fiber::enter, 0);
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(stack_, kStackBytes);  // clears the marks of an earlier stack at this address
#endif
}

Fiber::~Fiber() {
  if (!mapping_) return;
  munmap(mapping_, static_cast<size_t>(sysconf(_SC_PAGESIZE)) + kStackBytes);
}

void Fiber::enter() {
  Fiber& self = *entering;
  arrive(self);
  self.body_();
  std::abort();
}

// Not analysed with its callers, because they may keep the address of `left` while the fiber moves to another thread.
[[gnu::noipa]] void Fiber::arrive([[maybe_unused]] Fiber& fiber) {
#ifdef __SANITIZE_ADDRESS__
  const void* stack = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(fiber.sanitizer_, &stack, &bytes);
  left->stack_ = const_cast<void*>(stack);
  left->stack_bytes_ = bytes;
#endif
}

// The C library's context switch starts a fiber; a jump resumes it. The context switch costs two system calls, and
// under the address sanitizer it clears the marks of a whole stack. The jump is the compiler's builtin, because the C
// library's longjmp checks that it stays on its stack.
[[gnu::noipa, gnu::no_sanitize_address]] void Fiber::switch_to(Fiber& from, Fiber& to) {
#ifdef __SANITIZE_ADDRESS__
  left = &from;
  __sanitizer_start_switch_fiber(&from.sanitizer_, to.stack_, to.stack_bytes_);
#endif
  entering = &to;
  if (__builtin_setjmp(from.jump_) == 0) {
    if (to.started_) resume(to.jump_);
    to.started_ = true;
    setcontext(&to.context_);
  }
  arrive(from);
}

}  // namespace emulator
