// The board of ranks that are processes, on one host or on what it takes for two.
#include "comm/mpi/board.h"

#include "comm/mpi/session.h"
#include "core/stopwatch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <thread>

namespace ddp {
namespace {

using namespace std::chrono_literals;

MpiSession* session = nullptr;

void barrier() { ASSERT_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS); }

bool soon(const std::function<bool()>& holds) {
  for (int i = 0; i < 3000; ++i, std::this_thread::sleep_for(10ms))
    if (holds()) return true;
  return false;
}

class BoardTest : public testing::Test {
 protected:
  static int lower_half() { return (session->size() + 1) / 2; }
  static int leader_of(int rank) { return rank < lower_half() ? 0 : lower_half(); }
  std::unique_ptr<Board> one_host() { return make_mpi_board(MPI_COMM_WORLD, 0, "a", engine); }
  std::unique_ptr<Board> two_hosts(const std::string& name) {
    return make_mpi_board(MPI_COMM_WORLD, leader_of(rank), name, engine);
  }

  // Everybody posts; everybody sees what everybody has posted.
  void post_and_read(Board& board) {
    const int64_t begin = steady_ns();
    board.post(100 + rank, rank);
    board.sign_of_life();
    board.post_collective(200 + rank, 300 + rank);
    for (int r = 0; r < board.size(); ++r) {
      ASSERT_TRUE(soon([&] { return board.read(r).awaited_step == 200 + r; })) << r;
      const Posting seen = board.read(r);
      EXPECT_EQ(seen.step, 100 + r);
      EXPECT_EQ(seen.phase, r);
      EXPECT_EQ(seen.collective, 300 + r);
      EXPECT_LE(seen.since_ns, steady_ns());
      EXPECT_GT(seen.since_ns, begin - 20'000'000'000);
      EXPECT_GE(seen.alive_ns, seen.since_ns);
      EXPECT_LE(seen.alive_ns, steady_ns());
      EXPECT_FALSE(board.left(r));
      EXPECT_FALSE(board.dead(r));
    }
  }

  Engine engine;
  const int rank = session->rank(), size = session->size();
};

TEST_F(BoardTest, RanksOfAHostSeeEachOther) {
  const auto board = one_host();
  EXPECT_EQ(board->rank(), rank);
  EXPECT_EQ(board->size(), size);
  EXPECT_EQ(board->pid_of(rank), getpid());
  for (int r = 0; r < size; ++r) {
    EXPECT_EQ(board->host_of(r), "a");
    EXPECT_GT(board->pid_of(r), 0);
  }
  post_and_read(*board);
  const int64_t before = steady_ns();
  EXPECT_GE(board->heard_ns(size - 1), before);
  barrier();
}

TEST_F(BoardTest, RanksOfOtherHostsAreSeenWhileNothingIsSummed) {
  const auto board = two_hosts(rank < lower_half() ? "a" : "b");
  for (int r = 0; r < size; ++r) {
    EXPECT_EQ(board->host_of(r), r < lower_half() ? "a" : "b");
    EXPECT_EQ(board->pid_of(r) > 0, leader_of(r) == leader_of(rank));
  }
  post_and_read(*board);
  for (int r = 0; r < size; ++r) {
    const int64_t heard = board->heard_ns(r);
    EXPECT_TRUE(soon([&] { return board->heard_ns(r) > heard; })) << "no more news of rank " << r;
  }
  barrier();
}

TEST_F(BoardTest, ThatARankHasLeftIsSeenByAll) {
  const auto board = two_hosts(rank < lower_half() ? "a" : "b");
  if (rank == size - 1) board->leave();
  EXPECT_TRUE(soon([&] { return board->left(size - 1); }));
  EXPECT_EQ(board->left(0), size == 1);
  barrier();
}

TEST_F(BoardTest, HostsOfTheSameNameAreToldApart) {
  const auto board = two_hosts("same");
  EXPECT_EQ(board->host_of(0), "same");
  EXPECT_EQ(board->host_of(size - 1), size == 1 ? "same" : "same#" + std::to_string(lower_half()));
}

TEST_F(BoardTest, AHostThatHasGoneHoldsNobodyUp) {
  auto board = two_hosts(rank < lower_half() ? "a" : "b");
  post_and_read(*board);
  barrier();
  const int gone = leader_of(size - 1);
  if (rank == gone) board.reset();  // nobody answers its last words
  EXPECT_TRUE(soon([&] { return !board || board->left(gone); }));
  barrier();
}

TEST_F(BoardTest, AHostThatHasFinishedIsNotTakenForOneThatIsCutOff) {
  auto board = two_hosts(rank < lower_half() ? "a" : "b");
  barrier();
  const int gone = leader_of(size - 1);
  if (rank == gone) board.reset();
  EXPECT_TRUE(soon([&] { return !board || board->left(gone); }));
  std::this_thread::sleep_for(1s);  // its last message is there, and has not let its other rank leave
  if (leader_of(rank) != gone) {
    EXPECT_EQ(board->left(size - 1), size - 1 == gone);
    const int64_t heard = board->heard_ns(size - 1);
    EXPECT_TRUE(soon([&] { return board->heard_ns(size - 1) > heard; }));
  }
  barrier();
}

TEST_F(BoardTest, ASessionHasOne) {
  Board& board = session->board();
  EXPECT_EQ(board.rank(), rank);
  EXPECT_EQ(board.host_of(rank), session->host());
  post_and_read(board);
  barrier();
}

}  // namespace
}  // namespace ddp

int main(int argc, char** argv) {
  ddp::MpiSession mpi(argc, argv);
  ddp::session = &mpi;
  testing::InitGoogleTest(&argc, argv);
  const char* const expected = std::getenv("DDP_EXPECT_WORLD");
  if (!expected || std::atoi(expected) != mpi.size()) {
    fmt::print(stderr, "DDP_EXPECT_WORLD is {}, the world has {} ranks\n", expected ? expected : "not set", mpi.size());
    return 1;
  }
  if (mpi.rank() != 0)
    delete testing::UnitTest::GetInstance()->listeners().Release(
        testing::UnitTest::GetInstance()->listeners().default_result_printer());
  return RUN_ALL_TESTS();
}
