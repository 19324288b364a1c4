#include "core/host_name.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <string>
#include <thread>

namespace ddp {
namespace {

TEST(HostName, IsThatOfTheSystem) {
  utsname system{};
  ASSERT_EQ(uname(&system), 0);
  EXPECT_EQ(host_name(), system.nodename);
}

// Linux can give a thread its own host name.
TEST(HostName, HasAnyLength) {
  bool may_rename = true;
  const std::string longest(64, 'x');
  std::string found, of_none;
  std::thread([&] {
    may_rename = ::unshare(CLONE_NEWUTS) == 0 && ::sethostname(longest.data(), longest.size()) == 0;
    if (!may_rename) return;
    found = host_name();
    (void)::sethostname("", 0);
    of_none = host_name();
  }).join();
  if (!may_rename) GTEST_SKIP() << "needs root";
  EXPECT_EQ(found, longest);
  EXPECT_EQ(of_none, "unknown");
}

}  // namespace
}  // namespace ddp
