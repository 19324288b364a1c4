// Run it under mpirun, with the number of ranks in DDP_EXPECT_WORLD.
#include "tests/gpu/ranks_rig.h"

#include <cstdlib>

namespace {

// Of a rank other than 0: failures only.
class FailurePrinter final : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed())
      fmt::print(stderr, "[rank {}] {}:{}: {}\n", ddp::testing::session()->rank(),
                 result.file_name() ? result.file_name() : "?", result.line_number(), result.message());
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
  if (mpi.rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter);
  }
  return RUN_ALL_TESTS();
}
