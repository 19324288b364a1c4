#include "comm/mpi/launcher.h"

#include "core/error.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

TEST(Launcher, NoLauncherMeansNoExpectedWorld) {
  EXPECT_FALSE(expected_world({{"HOME", "/root"}}));
  EXPECT_NO_THROW(require_expected_ranks({}, 1));
}

TEST(Launcher, MpirunTakesPrecedenceOverItsSlurmStep) {
  const Environment environment{{"OMPI_COMM_WORLD_SIZE", "8"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_ID", "0"}};
  EXPECT_EQ(expected_world(environment)->ranks, 8);
  EXPECT_NO_THROW(require_expected_ranks(environment, 8));
  EXPECT_THROW(require_expected_ranks(environment, 2), Error);
}

TEST(Launcher, SrunSetsTheWorldInsideAStepOnly) {
  EXPECT_EQ(expected_world({{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_ID", "3"}})->ranks, 4);
  EXPECT_FALSE(expected_world({{"SLURM_STEP_NUM_TASKS", "4"}}));
  EXPECT_FALSE(expected_world({{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "77"}}));
}

TEST(Launcher, ReadsOtherPmiVariables) { EXPECT_EQ(expected_world({{"PMI_SIZE", "3"}})->ranks, 3); }

TEST(Launcher, ReadsTheLocalRank) {
  const auto local_rank = [](const Environment& environment) { return expected_world(environment)->local_rank; };
  EXPECT_EQ(local_rank({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}}), 1);
  EXPECT_EQ(local_rank({{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_ID", "0"}, {"SLURM_LOCALID", "2"}}), 2);
  EXPECT_EQ(local_rank({{"PMI_SIZE", "4"}, {"PMI_RANK", "3"}, {"MPI_LOCALRANKID", "1"}}), 1);
  EXPECT_EQ(local_rank({{"PMI_SIZE", "4"}, {"PMI_RANK", "3"}}), 3);  // as on one host, so one rank reports
}

TEST(Launcher, IgnoresInvalidValues) { EXPECT_FALSE(expected_world({{"OMPI_COMM_WORLD_SIZE", "many"}})); }

TEST(Launcher, ErrorNamesBothCountsAndTheFix) {
  try {
    require_expected_ranks({{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_ID", "0"}}, 1);
    FAIL() << "no error for 1 rank instead of 4";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::world);
    const std::string text = e.what();
    EXPECT_NE(text.find("promised 4 ranks"), text.npos) << text;
    EXPECT_NE(text.find("has 1:"), text.npos) << text;
    EXPECT_NE(text.find("srun --mpi=pmix"), text.npos) << text;
  }
}

TEST(Launcher, RefusesSrunWithoutPmiBeforeMpiInit) {
  Environment environment{{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_ID", "0"}};
  try {
    require_pmi(environment);
    FAIL() << "no error for 4 tasks without PMI";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::world);
    EXPECT_NE(std::string(e.what()).find("srun --mpi=pmix"), std::string::npos) << e.what();
  }
  environment["SLURM_STEP_NUM_TASKS"] = "1";
  EXPECT_NO_THROW(require_pmi(environment));
  EXPECT_NO_THROW(require_pmi({{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_ID", "0"}, {"PMIX_RANK", "3"}}));
  EXPECT_NO_THROW(require_pmi({{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_ID", "0"}, {"OMPI_COMM_WORLD_SIZE", "8"}}));
}

TEST(Launcher, OneRankReportsACommonFailure) {
  EXPECT_TRUE(first_at_launch({}));
  EXPECT_TRUE(first_at_launch({{"SLURM_PROCID", "0"}}));
  EXPECT_FALSE(first_at_launch({{"SLURM_PROCID", "3"}}));
  EXPECT_FALSE(first_at_launch({{"SLURM_PROCID", "0"}, {"OMPI_COMM_WORLD_RANK", "2"}}));
}

}  // namespace
}  // namespace ddp
