// main() of a test program under mpirun. DDP_EXPECT_WORLD is the number of ranks: without it a launcher that starts
// worlds of one rank would pass. Rank 0 prints results; other ranks print their failures only.
#include "tests/mpi_session.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace ddp {
namespace {

MpiSession* owned_by_main = nullptr;

// A fatal failure of a rank ends all ranks, because the others would wait for that rank.
class Failures final : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (result.failed() && (result.fatally_failed() || session().rank() != 0))
      fmt::print(stderr, "[rank {}] {}:{}: {}\n", session().rank(), result.file_name() ? result.file_name() : "?",
                 result.line_number(), result.message());
    if (result.fatally_failed()) MpiSession::abort(Exit::internal);
  }
};

}  // namespace

MpiSession& session() { return *owned_by_main; }

}  // namespace ddp

int main(int argc, char** argv) {
  ddp::MpiSession mpi(argc, argv);
  ddp::owned_by_main = &mpi;
  ::testing::InitGoogleTest(&argc, argv);
  const char* const expected = std::getenv("DDP_EXPECT_WORLD");
  if (!expected || std::atoi(expected) != mpi.size()) {
    fmt::print(stderr, "DDP_EXPECT_WORLD is {}, the world has {} ranks\n", expected ? expected : "not set", mpi.size());
    return 1;
  }
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (mpi.rank() != 0) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new ddp::Failures);
  return RUN_ALL_TESTS();
}
