#include "tests/app/commands/doctor/fakes.h"

namespace ddp::doctor {
namespace {

TEST(DoctorWorld, CountsRanksPerHost) {
  const auto ranks = healthy(2, 3);
  const Findings found = check_world(ranks, ExpectedWorld{6, "mpirun", "OMPI_COMM_WORLD_SIZE", "", 0, 0});
  expect_fine(found);
  EXPECT_EQ(found[0].found, "6 ranks: 3 on a, 3 on b, as mpirun promised");
  EXPECT_NE(check_world(healthy(1, 1), std::nullopt)[0].found.find("mpirun -np N"), std::string::npos);
}

TEST(DoctorWorld, UnexpectedWorldSizeIsAFault) {
  const auto ranks = healthy(1, 1);
  const Findings found = check_world(ranks, ExpectedWorld{4, "srun", "SLURM_STEP_NUM_TASKS", "", 0, 0});
  expect_only(found, Verdict::fault, {"srun promised 4 ranks", "SLURM_STEP_NUM_TASKS", "has 1"},
              "srun --mpi=pmix -n 4 ddp_train", Exit::world);
}

}  // namespace
}  // namespace ddp::doctor
