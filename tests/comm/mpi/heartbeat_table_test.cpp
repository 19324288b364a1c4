// The heartbeat table, with ranks as processes, on one host or on two simulated hosts.
#include "comm/mpi/heartbeat_table.h"

#include "core/stopwatch.h"
#include "tests/mpi_session.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <thread>

namespace ddp {
namespace {

using namespace std::chrono_literals;

void barrier() { ASSERT_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS); }

bool soon(const std::function<bool()>& holds) {
  for (int i = 0; i < 30000; ++i, std::this_thread::sleep_for(10ms))
    if (holds()) return true;
  return false;
}

class HeartbeatTableTest : public testing::Test {
 protected:
  static int lower_half() { return (session().size() + 1) / 2; }
  static int leader_of(int rank) { return rank < lower_half() ? 0 : lower_half(); }
  std::unique_ptr<HeartbeatTable> one_host() { return make_mpi_heartbeat_table(MPI_COMM_WORLD, 0, "a", engine); }
  std::unique_ptr<HeartbeatTable> two_hosts(const std::string& name) {
    return make_mpi_heartbeat_table(MPI_COMM_WORLD, leader_of(rank), name, engine);
  }

  // Every rank publishes a heartbeat; every rank reads the heartbeats of all ranks.
  void publish_and_read(HeartbeatTable& heartbeats) {
    const int64_t begin = steady_ns();
    barrier();
    heartbeats.publish(100 + rank, rank);
    heartbeats.sign_of_life();
    heartbeats.publish_collective(200 + rank, 300 + rank);
    for (int r = 0; r < heartbeats.size(); ++r) {
      ASSERT_TRUE(soon([&] { return heartbeats.read(r).awaited_step == 200 + r; })) << r;
      const Heartbeat seen = heartbeats.read(r);
      EXPECT_EQ(seen.step, 100 + r);
      EXPECT_EQ(seen.phase, r);
      EXPECT_EQ(seen.collective, 300 + r);
      EXPECT_LE(seen.since_ns, steady_ns());
      EXPECT_GE(seen.since_ns, begin);
      EXPECT_GE(seen.alive_ns, seen.since_ns);
      EXPECT_LE(seen.alive_ns, steady_ns());
      EXPECT_FALSE(heartbeats.left(r));
      EXPECT_FALSE(heartbeats.dead(r));
    }
  }

  ProgressEngine engine;
  const int rank = session().rank(), size = session().size();
};

TEST_F(HeartbeatTableTest, RanksOfAHostSeeEachOther) {
  const auto heartbeats = one_host();
  EXPECT_EQ(heartbeats->rank(), rank);
  EXPECT_EQ(heartbeats->size(), size);
  EXPECT_EQ(heartbeats->pid_of(rank), getpid());
  for (int r = 0; r < size; ++r) {
    EXPECT_EQ(heartbeats->host_of(r), "a");
    EXPECT_GT(heartbeats->pid_of(r), 0);
  }
  publish_and_read(*heartbeats);
  const int64_t before = steady_ns();
  EXPECT_GE(heartbeats->heard_ns(size - 1), before);
  barrier();
}

TEST_F(HeartbeatTableTest, RanksOfOtherHostsAreSeenWithoutCollectives) {
  const auto heartbeats = two_hosts(rank < lower_half() ? "a" : "b");
  for (int r = 0; r < size; ++r) {
    EXPECT_EQ(heartbeats->host_of(r), r < lower_half() ? "a" : "b");
    EXPECT_EQ(heartbeats->pid_of(r) > 0, leader_of(r) == leader_of(rank));
  }
  publish_and_read(*heartbeats);
  for (int r = 0; r < size; ++r) {
    const int64_t heard = heartbeats->heard_ns(r);
    EXPECT_TRUE(soon([&] { return heartbeats->heard_ns(r) > heard; })) << "no more news of rank " << r;
  }
  for (int r = 0; r < size; ++r) {  // news of a host is no sign of life of its ranks
    const auto silence = [&] { return heartbeats->heard_ns(r) - heartbeats->read(r).alive_ns; };
    EXPECT_TRUE(soon([&] { return silence() > 500'000'000; })) << "rank " << r << " seems alive";
  }
  barrier();
}

TEST_F(HeartbeatTableTest, AllRanksSeeThatARankHasLeft) {
  const auto heartbeats = two_hosts(rank < lower_half() ? "a" : "b");
  if (rank == size - 1) heartbeats->leave();
  EXPECT_TRUE(soon([&] { return heartbeats->left(size - 1); }));
  EXPECT_EQ(heartbeats->left(0), size == 1);
  barrier();
}

TEST_F(HeartbeatTableTest, HostsOfTheSameNameAreDistinguished) {
  const auto heartbeats = two_hosts("same");
  EXPECT_EQ(heartbeats->host_of(0), "same");
  EXPECT_EQ(heartbeats->host_of(size - 1), size == 1 ? "same" : "same#" + std::to_string(lower_half()));
}

TEST_F(HeartbeatTableTest, FinishedHostIsNotTakenForUnreachable) {
  auto heartbeats = two_hosts(rank < lower_half() ? "a" : "b");
  barrier();
  const int gone = leader_of(size - 1);
  if (rank == gone) heartbeats.reset();  // no rank answers its last message
  EXPECT_TRUE(soon([&] { return !heartbeats || heartbeats->left(gone); }));
  std::this_thread::sleep_for(1s);  // its last message has arrived; its other rank has not left
  if (leader_of(rank) != gone) {
    EXPECT_EQ(heartbeats->left(size - 1), size - 1 == gone);
    const int64_t heard = heartbeats->heard_ns(size - 1);
    EXPECT_TRUE(soon([&] { return heartbeats->heard_ns(size - 1) > heard; }));
  }
  barrier();
}

TEST_F(HeartbeatTableTest, SessionHasATable) {
  HeartbeatTable& heartbeats = session().heartbeats();
  EXPECT_EQ(heartbeats.rank(), rank);
  EXPECT_EQ(heartbeats.host_of(rank), session().host());
  publish_and_read(heartbeats);
  barrier();
}

}  // namespace
}  // namespace ddp
