#include "app/machine/cores.h"

#include "core/control_group.h"
#include "tests/temp_folder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace ddp {
namespace {

TEST(Cores, RespectTheContainerLimit) {
  EXPECT_EQ(cores_within_limit(8, "max 100000"), 8);
  EXPECT_EQ(cores_within_limit(8, "200000 100000"), 2);
  EXPECT_EQ(cores_within_limit(8, "150000 100000"), 2);
  EXPECT_EQ(cores_within_limit(8, "5000 100000"), 1);
  EXPECT_EQ(cores_within_limit(8, "99900000 100000"), 8);
  for (const char* none : {"", "nonsense", "100000", "0 0", "-1 100000"}) EXPECT_EQ(cores_within_limit(8, none), 8);
}

TEST(Cores, AreSharedByRanks) {
  EXPECT_EQ(share_of_cores(0, 8, 3), 2);
  EXPECT_EQ(share_of_cores(0, 2, 3), 1);
  EXPECT_EQ(share_of_cores(5, 2, 3), 5);
}

TEST(Cores, ProcessAndHostHaveCores) {
  EXPECT_FALSE(cores_of_process().empty());
  EXPECT_FALSE(cores_of_host().empty());
}

using Values = std::vector<std::string>;

TEST(ControlGroup, GivesItsOwnLimitAndThoseAboveIt) {
  const TempFolder system;
  const int64_t machine = memory_limit(system.path());  // no groups at all
  EXPECT_GT(machine, int64_t{1} << 20);
  system.write("proc/self/cgroup", "0::/job/step\n");
  EXPECT_EQ(memory_limit(system.path()), machine);
  system.write("sys/fs/cgroup/job/step/memory.max", "max\n");
  system.write("sys/fs/cgroup/job/memory.max", "3000000\n");
  system.write("sys/fs/cgroup/memory.max", "4000000\n");
  EXPECT_EQ(group_values("memory", "memory.max", "old", system.path()), (Values{"max", "3000000", "4000000"}));
  EXPECT_EQ(memory_limit(system.path()), 3'000'000);
  system.write("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  system.write("sys/fs/cgroup/job/cpu.max", "400000 100000\n");
  system.write("sys/fs/cgroup/cpu.max", "1600000 200000\n");
  EXPECT_EQ(cpu_limit_of_container(system.path()), "400000 100000");
  system.write("proc/self/cgroup", "0::/elsewhere\n");  // in a container without a namespace of its own
  EXPECT_EQ(memory_limit(system.path()), 4'000'000);
}

TEST(ControlGroup, KnowsTheFirstVersion) {
  const TempFolder system;
  system.write("proc/self/cgroup", "5:memory:/a\n3:cpu,cpuacct:/b/c\n1:name=systemd:/d\n0::/e\nnonsense\n");
  system.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  system.write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2000000\n");
  system.write("sys/fs/cgroup/cpu/b/cpu.cfs_quota_us", "-1\n");
  system.write("sys/fs/cgroup/cpu/b/c/cpu.cfs_quota_us", "50000\n");
  system.write("sys/fs/cgroup/memory/e/memory.limit_in_bytes", "1000000\n");  // of another controller
  EXPECT_EQ(memory_limit(system.path()), 2'000'000);
  EXPECT_EQ(group_values("cpu", "cpu.max", "cpu.cfs_quota_us", system.path()), (Values{"50000", "-1"}));
  for (const char* group : {"b", "b/c"})
    system.write(fmt::format("sys/fs/cgroup/cpu/{}/cpu.cfs_period_us", group), "100000\n");
  EXPECT_EQ(cpu_limit_of_container(system.path()), "50000 100000");
}

TEST(ControlGroup, LeavesWhatNoOneUses) {
  const TempFolder system;
  system.write("proc/meminfo", "MemTotal:  9000 kB\nMemAvailable:    8000 kB\n");
  EXPECT_EQ(available_memory(1, system.path()), 8'192'000);  // no groups at all
  system.write("proc/self/cgroup", "0::/job/step\n");
  system.write("sys/fs/cgroup/job/step/memory.max", "max\n");
  system.write("sys/fs/cgroup/job/step/memory.current", "1000000\n");
  EXPECT_EQ(available_memory(1, system.path()), 8'192'000);
  system.write("sys/fs/cgroup/job/memory.max", "3000000\n");
  system.write("sys/fs/cgroup/job/memory.current", "1800000\n");
  EXPECT_EQ(available_memory(1, system.path()), 1'200'000);
  system.write("sys/fs/cgroup/job/memory.stat", "anon 5\nfile 900000\ninactive_file 300000\n");
  EXPECT_EQ(available_memory(3, system.path()), 500'000);
  system.write("sys/fs/cgroup/job/memory.current", "9000000\n");
  EXPECT_EQ(available_memory(1, system.path()), 0);
  system.write("proc/self/cgroup", "4:memory:/a\n");
  system.write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "5000000\n");
  system.write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "2000000\n");
  system.write("sys/fs/cgroup/memory/a/memory.stat", "inactive_file 7\ntotal_inactive_file 500000\n");
  EXPECT_EQ(available_memory(1, system.path()), 3'500'000);
}

TEST(Cores, ParseAndPrintKernelLists) {
  EXPECT_EQ(parse_list("0-2,5,7-8\n"), (std::vector<int>{0, 1, 2, 5, 7, 8}));
  EXPECT_EQ(parse_list("3"), std::vector<int>{3});
  EXPECT_TRUE(parse_list("").empty());
  EXPECT_EQ(list_of({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  EXPECT_EQ(list_of({}), "");
}

}  // namespace
}  // namespace ddp
