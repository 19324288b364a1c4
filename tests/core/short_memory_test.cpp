#include "core/error.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>

namespace {

thread_local bool memory_is_short = false;

}  // namespace

// Not inlined: the compiler must not see that operator new calls malloc.
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (void* const memory = memory_is_short ? nullptr : std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace ddp {
namespace {

TEST(ShortMemory, ErrorNeedsNoMemory) {
  const std::bad_alloc exception;
  const std::logic_error bug("a bug whose text needs memory");
  memory_is_short = true;
  const Error memory = as_error(exception), other = as_error(bug);
  memory_is_short = false;
  for (const Error& error : {memory, other}) {
    EXPECT_EQ(error.code(), Exit::device);
    EXPECT_TRUE(std::string(error.what()).starts_with("out of memory; use a smaller --batch-size")) << error.what();
  }
}

}  // namespace
}  // namespace ddp
