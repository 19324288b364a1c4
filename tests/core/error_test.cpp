#include "core/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

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

TEST(Error, NamesTheLimitOfOpenFiles) {
  EXPECT_TRUE(errno_text(EMFILE).starts_with("Too many open files (this process may open ")) << errno_text(EMFILE);
  EXPECT_TRUE(errno_text(EMFILE).ends_with("ulimit -n)")) << errno_text(EMFILE);
  EXPECT_EQ(errno_text(ENOENT), "No such file or directory");
}

}  // namespace
}  // namespace ddp
