#include "core/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

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

TEST(Error, StandsForAnyException) {
  EXPECT_EQ(as_error(CollectiveError(Exit::model, "too large")).code(), Exit::model);
  EXPECT_STREQ(as_error(Error(Exit::data, "broken")).what(), "broken");
  EXPECT_EQ(as_error(std::logic_error("a bug")).code(), Exit::internal);
  EXPECT_STREQ(as_error(std::logic_error("a bug")).what(), "a bug");
}

TEST(Error, NamesTheLimitsWhereMemoryOrThreadsAreShort) {
  const Error memory = as_error(std::bad_alloc());
  EXPECT_EQ(memory.code(), Exit::device);
  EXPECT_TRUE(std::string(memory.what()).starts_with("out of memory: the limit of the control group or of the machine"))
      << memory.what();
  const Error threads = as_error(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)));
  EXPECT_EQ(threads.code(), Exit::device);
  EXPECT_TRUE(std::string(threads.what()).starts_with("cannot start a thread: ")) << threads.what();
}

TEST(Error, OfShortMemoryNeedsNoMemory) {
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

TEST(Error, NamesTheLimitOfOpenFiles) {
  EXPECT_TRUE(errno_text(EMFILE).starts_with("Too many open files (this process may open ")) << errno_text(EMFILE);
  EXPECT_TRUE(errno_text(EMFILE).ends_with("ulimit -n)")) << errno_text(EMFILE);
  EXPECT_EQ(errno_text(ENOENT), "No such file or directory");
}

}  // namespace
}  // namespace ddp
