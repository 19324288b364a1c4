// Run this program under mpirun. DDP_EXPECT_WORLD is the number of ranks.
#include "tests/gpu/ranks_fixture.h"

#include <cstdlib>

namespace {

// Prints the failures of ranks other than 0. After a fatal failure of a rank it ends all ranks, because the others
// would wait for that rank.
class Failures final : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed() && (result.fatally_failed() || ddp::testing::session()->rank() != 0))
      fmt::print(stderr, "[rank {}] {}:{}: {}\n", ddp::testing::session()->rank(),
                 result.file_name() ? result.file_name() : "?", result.line_number(), result.message());
    if (result.fatally_failed()) ddp::MpiSession::abort(ddp::Exit::internal);
  }
};

}  // namespace

int main(int argc, char** argv) {
  ddp::MpiSession mpi(argc, argv);
  ddp::testing::session() = &mpi;
  testing::InitGoogleTest(&argc, argv);
  const char* const expected = std::getenv("DDP_EXPECT_WORLD");
  if (!expected || std::atoi(expected) != mpi.size()) {
    fmt::print(stderr, "DDP_EXPECT_WORLD is {}, the world has {} ranks\n", expected ? expected : "not set", mpi.size());
    return 1;
  }
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (mpi.rank() != 0) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new Failures);
  return RUN_ALL_TESTS();
}
