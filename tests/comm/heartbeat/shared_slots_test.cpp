// Heartbeat slots in shared memory. A forked child process is the other rank.
#include "comm/heartbeat/shared_slots.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <thread>

namespace ddp {
namespace {

using namespace std::chrono_literals;

class Child {
 public:
  explicit Child(const std::function<int()>& work) : pid_(fork()) {
    if (pid_ == 0) _exit(work());
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  int pid() const { return pid_; }
  int code() const {
    siginfo_t info{};
    waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
    return info.si_status;
  }

 private:
  pid_t pid_;
};

TEST(SharedSlots, AreVisibleToAnotherProcess) {
  SharedSlots mine(3);
  const Child child([key = mine.key()] {
    SharedSlots theirs(key, 3);
    theirs.slots()[2].publish(812, 4);
    theirs.slots()[2].publish_collective(813, 7);
    return 0;
  });
  ASSERT_EQ(child.code(), 0);
  const Heartbeat seen = mine.slots()[2].read();
  EXPECT_EQ(seen.step, 812);
  EXPECT_EQ(seen.phase, 4);
  EXPECT_EQ(seen.awaited_step, 813);
  EXPECT_EQ(seen.collective, 7);
  EXPECT_GT(seen.since_ns, 0);
  EXPECT_EQ(mine.slots()[1].read().alive_ns, 0);
}

TEST(SharedSlots, ArePrivateIfSharingFails) {
  SharedSlots mine(3);
  int64_t step = 0;
  // Whether `mine` shows what another object with this key publishes.
  const auto shared = [&](const SharedSlots::Key& key, int count) {
    const SharedSlots theirs(key, count);
    theirs.slots().back().publish(1, 1);
    theirs.slots()[0].publish(++step, 1);
    return mine.slots()[0].read().step == step;
  };
  EXPECT_TRUE(shared(mine.key(), 3));
  EXPECT_FALSE(shared({}, 3));
  EXPECT_FALSE(shared(mine.key(), 4000));
  SharedSlots::Key other = mine.key();
  other.inode ^= 1;
  EXPECT_FALSE(shared(other, 3));
  const SharedSlots::Key key = mine.key();
  mine.hide();
  EXPECT_FALSE(shared(key, 3));
  EXPECT_EQ(mine.key().file, -1);
}

// A number of a process or a file may mean something else here, such as a file of the user.
TEST(SharedSlots, NothingButSealedMemoryOfThisNameIsOpened) {
  const auto opened = [](int file, const char* name) {
    const int found = open_memory_of(getpid(), file, name, O_RDWR);
    if (found >= 0) close(found);
    return found >= 0;
  };
  const int sealed = memfd_create("some name", MFD_ALLOW_SEALING), unsealed = memfd_create("some name", 0);
  ASSERT_EQ(fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_TRUE(opened(sealed, "some name"));
  EXPECT_FALSE(opened(sealed, "other name"));
  EXPECT_FALSE(opened(unsealed, "some name"));
  const int device = open("/dev/null", O_RDWR);
  EXPECT_FALSE(opened(device, "some name"));
  for (const int file : {sealed, unsealed, device}) close(file);

  SharedSlots mine(3);
  EXPECT_NE(ftruncate(mine.key().file, 0), 0);  // the memory cannot shrink under another process
}

TEST(ProcessHandle, DistinguishesKilledFromStoppedProcesses) {
  const Child child([] { return pause(); });
  const ProcessHandle handle(child.pid());
  EXPECT_FALSE(handle.ended());
  kill(child.pid(), SIGSTOP);
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(child.pid()), &info, WSTOPPED);
  EXPECT_FALSE(handle.ended());
  kill(child.pid(), SIGKILL);
  child.code();  // the child has ended and is a zombie
  EXPECT_TRUE(handle.ended());
}

TEST(ProcessHandle, EmptyHandleHasNotEnded) {
  EXPECT_FALSE(ProcessHandle().ended());
  ProcessHandle handle(getpid());
  EXPECT_FALSE(handle.ended());
  handle = ProcessHandle();
  EXPECT_FALSE(handle.ended());
}

}  // namespace
}  // namespace ddp
